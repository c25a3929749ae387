"""Step 3c on nodes, consolidate: move running jobs of one node to other nodes.

Where `Pool.consolidate` allows it, and for two needs: GPUs of a node for a job of its tenant, or
the whole instance of a node for any other job. All the jobs that move fit on other nodes of their
tenant in the same pool, on GPUs that are free at once. Members of gangs and starting jobs stay.

As between pools, a job moves jobs of other projects only where, with it, its own project and
department stay within their fair shares, and no job of the same user and rank.

See docs/policy-decisions.md#consolidation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slotq_core.gpu_amounts import WHOLE, Gpus
from slotq_core.model.jobs import Job, JobState
from slotq_core.policy.actions.nodes.move_search import Key, Movable, NodeGpus, least_costly
from slotq_core.policy.order import same_user_and_rank
from slotq_core.policy.state.candidates import Candidate
from slotq_core.policy.state.nodes.node_index import MayUse, NodeIndex
from slotq_core.policy.state.nodes.node_room import NodeRoom, held_by
from slotq_core.policy.state.nodes.nodes import Nodes
from slotq_core.policy.state.plan_state import Destinations, PlanState
from slotq_core.policy.state.pool_room import PoolRoom
from slotq_core.policy.state.quotas.gate import NOTHING_LEAVES, may_move_others

START = 5_000
"""What a move costs a job besides the work lost (ms): its stop, and its start on the other node."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeMoves:
    """Jobs that move from one node to others."""

    room: NodeRoom
    victims: tuple[Candidate, ...]
    to: Destinations
    key: Key


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeConsolidation:
    """The search for moves between nodes."""

    state: PlanState

    def for_gpus(
        self,
        job: Job,
        pool: PoolRoom,
        index: NodeIndex,
        may_use: MayUse,
    ) -> NodeMoves | None:
        """The moves that let the job start on one of these nodes of its tenant, or None. `may_use`:
        whether the job may run on a node."""
        if not pool.pool.consolidate or self.state.limits.over_own(job, pool.pool.name):
            return None
        able: dict[str, Sequence[Candidate]] = {}
        for name, candidates in index.movable().items():
            room = index.rooms[name]
            if not (room.ready and room.entrance.takes(job, now=False) and may_use(room)):
                continue
            movable = self._movable(job, candidates, pool)
            left = sum(amount for amount in room.open_to(job) if amount > 0)
            if sum(candidate.slots for candidate in movable) + left >= job.gpus:
                able[name] = movable
        return _best(job, index, able, job.gpus) if able else None

    def for_instance(self, job: Job, pool: PoolRoom) -> NodeMoves | None:
        """The moves that empty a node, so that the job, which needs one instance more in the pool,
        gets the node's; None: there are none. On a node that takes the job, it takes GPUs."""
        nodes, name = self.state.nodes, pool.pool.name
        if nodes is None or not pool.pool.consolidate:
            return None
        own = nodes.index(job, name) if nodes.takes(job, name) else None
        found = []
        for index in nodes.of_pool(name):
            able = {
                name: candidates
                for name, candidates in index.movable().items()
                if not (index is own and index.rooms[name].entrance.takes(job, now=False))
                and self._may_be_emptied(job, index.rooms[name], candidates, pool, nodes)
            }
            if able and (moves := _best(job, index, able, None)):
                found.append(moves)
        return min(found, key=lambda moves: moves.key, default=None)

    def _may_be_emptied(
        self,
        job: Job,
        room: NodeRoom,
        candidates: Sequence[Candidate],
        pool: PoolRoom,
        nodes: Nodes,
    ) -> bool:
        """Whether these are all jobs of the node and may move for the job, which then has
        enough."""
        shown = nodes.stand_ins.of((room.pool, room.name))
        if shown is None or shown.state is not JobState.RUNNING or not pool.jobs.has(shown):
            return False
        if not room.ready or not pool.missing(job).within(shown.demand):
            return False
        movable = self._movable(job, candidates, pool, shown)
        return len(movable) == len(nodes.stand_ins.jobs_on(shown))

    def _movable(
        self,
        job: Job,
        candidates: Sequence[Candidate],
        pool: PoolRoom,
        leaves: Job | None = None,
    ) -> list[Candidate]:
        """The candidates of a node that may move for the job. One whose project is beyond a hard
        budget could not start again. `leaves`: the job that stands for the node, if it ends."""
        state, accounts, name = self.state, self.state.accounts, pool.pool.name
        shared, leaving = accounts.shared, NOTHING_LEAVES
        asked = job.demand if shared is None else shared.of(job, name)
        if leaves is not None:
            amount = leaves.demand if shared is None else shared.of(leaves, name)
            leaving = {account.key: amount for account in accounts.of(leaves, name)}
        within_share = not accounts.book(name) or may_move_others(
            asked, accounts.of(job, name), leaving
        )
        return [
            candidate
            for candidate in candidates
            for moving in candidate.jobs
            if within_share or moving.project == job.project
            if moving.project not in state.budgets.hard and moving.group not in state.gangs
            if not same_user_and_rank(job, moving)
        ]


def _best(
    job: Job, index: NodeIndex, able: Mapping[str, Sequence[Candidate]], gpus: Gpus | None
) -> NodeMoves | None:
    """The least costly moves of these candidates, by node. `gpus`: None if the node must be
    empty."""
    choosy = [room for room in index.rooms.values() if room.entrance.may_refuse]
    nodes = [
        _as_gpus(room, job, able.get(room.name), choosy)
        for room in index.rooms.values()
        if room.name in able or (room.open_now and not room.empty)
    ]
    found = least_costly(nodes, gpus)
    if found is None:
        return None
    return NodeMoves(
        room=index.rooms[found.source],
        victims=tuple(c for c in able[found.source] if c.name in found.to),
        to={name: (index.rooms[to.node], to.gpus) for name, to in found.to.items()},
        key=found.key,
    )


def _as_gpus(
    room: NodeRoom, job: Job, able: Sequence[Candidate] | None, choosy: Sequence[NodeRoom]
) -> NodeGpus:
    """The node for the search. `able`: the jobs that may move for the waiting one; None: no room is
    made here. `choosy`: the nodes that some jobs may not come to."""
    return NodeGpus(
        name=room.name,
        now=() if room.empty else tuple(max(0, amount) for amount in room.open_now),
        soon=() if able is None else room.open_to(job),
        movable=tuple(
            Movable(
                name=candidate.name,
                amount=moving.gpus,
                gpus=tuple(held_by(candidate)),
                cost=(candidate.unsaved + START) * moving.gpus // (WHOLE * room.gpus),
                evictions=moving.evictions,
                barred=frozenset(
                    at.name for at in choosy if not at.entrance.takes(moving, now=True)
                ),
            )
            for candidate in able or ()
            for moving in candidate.jobs
        ),
        places=room.places - len(room.claims),
    )
