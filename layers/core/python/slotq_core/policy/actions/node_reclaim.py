"""Step 3d, reclaim, on one node that projects share: take GPUs from projects above their share.

As in a pool (reclaim.py), by the same gate, and the least harm over all nodes. A reclaimer above
its own quota takes no project below quota that has in-quota work waiting.

See docs/policy-decisions.md#nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet

from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job
from slotq_core.model.pools import Pool
from slotq_core.policy.actions.node_victims import MOST_NODES, Victims
from slotq_core.policy.actions.reclaim import Search
from slotq_core.policy.actions.victims import Eviction
from slotq_core.policy.order import Rank
from slotq_core.policy.state.candidates import Candidate
from slotq_core.policy.state.nodes.node_index import NodeIndex
from slotq_core.policy.state.nodes.node_room import NodeRoom
from slotq_core.policy.state.plan_state import PlanState
from slotq_core.policy.state.pool_room import PoolRoom
from slotq_core.policy.state.quotas.account import Chain
from slotq_core.policy.state.quotas.gate import givers

Found = tuple[NodeRoom, "_OnNode", tuple[Candidate, ...]]


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
    base: Rank = min(search.lowest_rank() for _, search, _ in found)
    options = [(room, search.better(victims, base)) for room, search, victims in found]
    return min(options, key=lambda option: Eviction(room=pool, victims=option[1]).harm(base))


def _found(state: PlanState, job: Job, pool: PoolRoom, index: NodeIndex) -> Iterator[Found]:
    """The first nodes that give enough, each with its search and victims."""
    compared = 0
    for room in index.with_candidates():
        if compared == MOST_NODES:
            return
        if not room.ready or not room.outlasts(job):
            continue
        search = _OnNode(job, _Place(pool.pool, room), state, set(), once_started=False)
        victims = search.victims()
        if victims:
            compared += 1
            yield room, search, victims


class _Holders:
    """The candidates on one node by project."""

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        self._by_project: dict[str, list[Candidate]] = {}
        for candidate in candidates:
            self._by_project.setdefault(candidate.project, []).append(candidate)

    def projects(self) -> AbstractSet[str]:
        return self._by_project.keys()

    def candidates(self, project: str) -> Sequence[Candidate]:
        return self._by_project.get(project, ())

    def candidates_once_started(self, project: str) -> Sequence[Candidate]:
        return self.candidates(project)


class _Place:
    """A node as the place of a reclaim. Amounts are GPUs."""

    def __init__(self, pool: Pool, room: NodeRoom) -> None:
        self.pool, self._room = pool, room
        self.jobs = _Holders(room.candidates)

    def missing(self, job: Job) -> Demand:
        return Demand(gpus=max(0, job.gpus - self._room.left(job)))

    def left(self, job: Job) -> Demand:
        return Demand(gpus=self._room.left(job))


class _OnNode(Search):
    """The search on one node."""

    def _takes_back(self, job: Job, theirs: Chain, left: Demand) -> bool:
        """Any waiting job of that project may: it might take an instance, or another node."""
        return True
