"""The turn of a job that takes GPUs of a node.

First the nodes of its tenant: GPUs that are free, then those that come free. Then an instance of
its pool, where a node starts for it. Then jobs of one node move to others, where they may. Then it
evicts lower ranks on one node, and only if no node has enough of these, others for an instance of
its own.

See docs/policy-decisions.md#nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from slotq_core.gpu_amounts import Gpus
from slotq_core.model.jobs import Job
from slotq_core.model.pools import PoolState
from slotq_core.model.reasons import NodeComing
from slotq_core.policy.actions.node_victims import least_harmful
from slotq_core.policy.order import rank
from slotq_core.policy.plan import Start
from slotq_core.policy.state.nodes.node_index import NodeIndex
from slotq_core.policy.state.nodes.node_room import NodeRoom
from slotq_core.policy.state.nodes.nodes import Nodes
from slotq_core.policy.state.pool_room import PoolRoom
from slotq_core.policy.turn.blocked import blocked
from slotq_core.policy.turn.prospects import has_prospects
from slotq_core.policy.turn.steps import Steps


def take_turn_on_nodes(steps: Steps, job: Job) -> bool:
    """Serve the job. Return False if the job, and so the rest of its line, is blocked."""
    steps.state.take_own_claim(job)
    rooms = steps.state.rooms_of(job)
    assert steps.state.nodes is not None
    turn = NodeTurn(steps, job, rooms, steps.state.nodes)
    return turn.served() or blocked(steps, job, rooms)


class NodeTurn:
    """The turn of one job."""

    def __init__(self, steps: Steps, job: Job, rooms: Sequence[PoolRoom], nodes: Nodes) -> None:
        self._steps, self._state, self._nodes = steps, steps.state, nodes
        self._job, self._rooms = job, rooms
        self._eligible = steps.rules.eligible
        self._indexes = [*self._of_tenant()]

    def served(self) -> bool:
        """Serve the job. Return False and change nothing if no step can."""
        if not self._has_prospects():
            return False
        if self._claim_is_lost():
            return False
        return (
            self._on_nodes() or self._on_an_instance() or self._with_moves() or self._with_victims()
        )

    def _of_tenant(self) -> Iterator[tuple[PoolRoom, NodeIndex]]:
        """The pools with nodes of the job's tenant that the job may use."""
        users = self._state.accounts.users
        for room in self._rooms:
            name = room.pool.name
            index = self._nodes.index(self._job, name)
            if index is None or not self._nodes.takes(self._job, name):
                continue
            shut = room.pool.state is not PoolState.ACTIVE or self._eligible.closed_to(
                self._job, room
            )
            if not shut and users.admits_in(self._job, name) is not None:
                yield room, index

    def _has_prospects(self) -> bool:
        own = rank(self._job)
        for _, index in self._indexes:
            if index.may_hold(self._job.gpus) or index.claimed:
                return True
            able = index.with_candidates()
            if able and able[0].candidates[0].rank < own:
                return True
        return has_prospects(self._job, self._rooms, self._steps)

    def _claim_is_lost(self) -> bool:
        """Whether the job has a claim to a node that will not run it."""
        claim = self._job.claim
        if claim is None or not claim.node:
            return False
        room = self._claimed()
        if room is None or room.tenant != self._nodes.owner(self._job, room.pool):
            return True
        if not room.may_claim(self._job, now=False):
            return True
        return bool(self._state.limits.over_own(self._job, room.pool, once_stopped=True))

    def _claimed(self) -> NodeRoom | None:
        """The node of the job's claim."""
        claim = self._job.claim
        return self._nodes.rooms.get((claim.pool, claim.node)) if claim and claim.node else None

    def _on_nodes(self) -> bool:
        """Start the job on a node of its tenant, or let it wait for one."""
        claimed = self._claimed()
        if claimed is not None:
            room: NodeRoom | None = claimed
            is_free = claimed.may_claim(self._job, now=True)
            if not is_free or self._state.limits.over_own(self._job, claimed.pool):
                room = None
        else:
            room = self._fullest(now=True)
        if room is not None:
            classed = self._eligible.classed(self._job, room.pool)
            self._state.start_on(self._job, room, classed)
            return True
        room = claimed or self._fullest(now=False)
        if room is None:
            return False
        self._state.hold_on(self._job, room, self._why(room))
        return True

    def _fullest(self, *, now: bool) -> NodeRoom | None:
        for pool, index in self._indexes:
            if self._state.limits.over_own(self._job, pool.pool.name):
                continue
            found = index.fullest(self._job, partial(self._may_use, pool), now=now)
            if found is not None and self._stays_evictable(found, pool):
                return found
        return None

    def _may_use(self, pool: PoolRoom, room: NodeRoom) -> bool:
        """Whether a node without jobs may have this one: it then counts for the job's project."""
        within = self._eligible.within_bounds(self._job, pool)
        return within and self._nodes.may_use(self._job, room, pool)

    def _stays_evictable(self, room: NodeRoom, pool: PoolRoom) -> bool:
        """Whether the quotas allow that the job, if it is never evicted, protects the node."""
        if room.fixed or room.empty:
            return True
        return self._state.limits.quotas_allow(self._job, pool.pool.name)

    def _on_an_instance(self) -> bool:
        """Take an instance of a pool, free or coming free."""
        within = self._within_limits()
        served = self._steps.start(self._job, within) or self._steps.wait_for_coming(
            self._job, self._rooms, within
        )
        return served and self._begun()

    def _with_moves(self) -> bool:
        """Move jobs of one node of the tenant to its other nodes."""
        for pool, index in self._indexes:
            may_use = partial(self._stays_evictable, pool=pool)
            found = self._steps.rules.node_moves.for_gpus(self._job, pool, index, may_use)
            if found is not None:
                why = self._why(found.room)
                self._state.hold_on(self._job, found.room, why, found.victims, found.to)
                self._nodes.guard(found.room, pool)
                return True
        return False

    def _with_victims(self) -> bool:
        """Evict lower ranks on one node of the tenant; else as a job that takes an instance."""
        for pool, index in self._indexes:
            found = least_harmful(index, self._job, pool, self._over_limits(pool))
            if found is not None and self._stays_evictable(found[0], pool):
                self._state.hold_on(self._job, found[0], self._why(found[0]), found[1])
                self._nodes.guard(found[0], pool)
                return True
        job, rooms, steps = self._job, self._rooms, self._steps
        able = steps.with_rights(job, self._within_limits())
        served = (
            steps.consolidate(job, able)
            or steps.reclaim(job, able)
            or steps.preempt(job, self._eligible.admitting(job, rooms))
            or steps.take_turn(job, rooms)
        )
        return served and self._begun()

    def _over_limits(self, pool: PoolRoom) -> Gpus:
        """The GPUs that jobs of the project must give under its limits before the job starts."""
        own, name = self._state.accounts.on_nodes.limits, pool.pool.name
        over = self._state.limits.over_own(self._job, name)
        return own.in_gpus(self._job, name, over) if own else 0

    def _within_limits(self) -> list[PoolRoom]:
        admitting = self._eligible.admitting(self._job, self._rooms)
        return [room for room in admitting if self._eligible.within_bounds(self._job, room)]

    def _begun(self) -> bool:
        """Enter the node that the job's instance becomes: other jobs of the tenant may wait for it,
        too."""
        decided = self._state.decided.decisions.get(self._job.name)
        started = decided.pool if isinstance(decided, Start) else ""
        pool = started or self._state.held_in[self._job.name]
        if self._nodes.starts_for(self._job, pool):
            self._nodes.begin(self._job, self._state.rooms[pool])
        return True

    def _why(self, room: NodeRoom) -> NodeComing:
        return NodeComing(
            pool=room.pool,
            node=room.name,
            needed=self._job.gpus,
            free=sum(amount for amount in room.free if amount > 0),
            coming=sum(amount for amount in room.coming if amount > 0),
            ready=room.ready,
        )
