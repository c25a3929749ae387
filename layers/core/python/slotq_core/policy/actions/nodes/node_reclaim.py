"""Step 3d, reclaim, on one node that projects share: take GPUs from projects above their share.

As in a pool (reclaim.py), by the same gate, and the least harm over all nodes. A reclaimer above
its own quota takes no project below quota that has in-quota work waiting.

See docs/policy-decisions.md#nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet

from slotq_core.model.demand import NOTHING, Demand
from slotq_core.model.jobs import Job
from slotq_core.model.pools import Pool
from slotq_core.policy.actions.nodes.node_victims import MOST_NODES, Victims, Way, ways
from slotq_core.policy.actions.reclaim import Search
from slotq_core.policy.actions.victims import Eviction, Shortfalls
from slotq_core.policy.state.candidates import Candidate
from slotq_core.policy.state.nodes.node_index import NodeIndex
from slotq_core.policy.state.nodes.node_room import NodeRoom
from slotq_core.policy.state.plan_state import PlanState
from slotq_core.policy.state.pool_room import PoolRoom
from slotq_core.policy.state.quotas.account import Chain
from slotq_core.policy.state.quotas.gate import givers

Found = tuple[NodeRoom, tuple[Candidate, ...]]


def may_reclaim_on(state: PlanState, job: Job, pool: str, index: NodeIndex) -> bool:
    """Whether the job may reclaim from some project with candidates on these nodes."""
    projects = {
        candidate.project for room in index.with_candidates() for candidate in room.candidates
    }
    return bool(givers(job, pool, projects, state.accounts))


def least_harmful_reclaim(
    state: PlanState, job: Job, pool: PoolRoom, index: NodeIndex
) -> Victims | None:
    """The node, and its jobs to evict, with the least harm from which the job may reclaim what it
    needs; None if no node gives enough. `pool`: the pool of these nodes."""
    if not may_reclaim_on(state, job, pool.pool.name, index):
        return None
    found = [*_found(state, job, pool, index)]
    if not found:
        return None
    base = min(victim.rank for _, victims in found for victim in victims)
    return min(found, key=lambda option: Eviction(room=pool, victims=option[1]).harm(base))


def _found(state: PlanState, job: Job, pool: PoolRoom, index: NodeIndex) -> Iterator[Found]:
    """The victims on the first nodes that give enough."""
    compared = 0
    for room in index.with_candidates():
        if compared == MOST_NODES:
            return
        others = [candidate for candidate in room.candidates if candidate.project != job.project]
        found = [
            (room, way.single(victims))
            for way in ways(room, job, others)
            if (victims := _OnNode(job, pool.pool, state, way).victims())
        ]
        compared += bool(found)
        yield from found


class _Holders:
    """The candidates on one node that give what is missing, by project. Jobs of several projects
    that share a GPU are none."""

    def __init__(self, way: Way) -> None:
        self._by_project: dict[str, list[Candidate]] = {}
        shortfalls = Shortfalls(*way.missing)
        for candidate in way.candidates:
            projects = {job.project for job in candidate.jobs}
            if len(projects) == 1 and any(shortfalls.contribution(candidate)):
                self._by_project.setdefault(candidate.project, []).append(candidate)

    def projects(self) -> AbstractSet[str]:
        return self._by_project.keys()

    def candidates(self, project: str) -> Sequence[Candidate]:
        return self._by_project.get(project, ())

    def candidates_once_started(self, project: str) -> Sequence[Candidate]:
        return self.candidates(project)


class _Place:
    """A node as the place of a reclaim. What is missing there is not one amount."""

    def __init__(self, pool: Pool, way: Way) -> None:
        self.pool, self.jobs = pool, _Holders(way)

    def missing(self, job: Job) -> Demand:
        return NOTHING

    def left(self, job: Job) -> Demand:
        return NOTHING


class _OnNode(Search):
    """The search on one node, for one way to make room."""

    def __init__(self, job: Job, pool: Pool, state: PlanState, way: Way) -> None:
        super().__init__(job, _Place(pool, way), state, set(), once_started=False)
        self._way = way

    def _shortfalls(self, missing: Demand) -> Shortfalls:
        return Shortfalls(*self._way.missing)

    def _takes_back(self, job: Job, theirs: Chain, left: Demand) -> bool:
        """Any waiting job of that project may: it might take an instance, or another node."""
        return True
