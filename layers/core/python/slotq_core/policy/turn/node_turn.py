"""The turn of a job that takes GPUs of a node, and the steps of a gang's member that takes some.

First the nodes of its tenant: GPUs that are free, then those that come free. Then an instance of
its pool, where a node starts for it. Then jobs of one node move to others, where they may. Then it
reclaims GPUs of one node that projects share, or evicts lower ranks on one node; and only if no
node has enough of these, others for an instance of
its own.

A gang's member starts with the others: on nodes that are ready. Else it holds GPUs, or an instance,
until all others have theirs; then nodes start.

See docs/policy-decisions.md#nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from slotq_core.gpu_amounts import Gpus
from slotq_core.model.attempts import StopCause
from slotq_core.model.jobs import Job
from slotq_core.model.pools import PoolState
from slotq_core.model.reasons import NodeComing, PoolClosed, Reason
from slotq_core.policy.actions.nodes.node_reclaim import least_harmful_reclaim, may_reclaim_on
from slotq_core.policy.actions.nodes.node_slices import NodeSlices
from slotq_core.policy.actions.nodes.node_victims import Victims, least_harmful
from slotq_core.policy.actions.victims import Shortfall
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
    if turn.served():
        return True
    turn.wake()
    return blocked(steps, job, rooms)


class NodeTurn:
    """The turn of one job, or the steps of one member of a gang."""

    def __init__(
        self,
        steps: Steps,
        job: Job,
        rooms: Sequence[PoolRoom],
        nodes: Nodes,
        claimable: Sequence[PoolRoom] | None = None,
    ) -> None:
        """`claimable`: where the job's claim may come true, if not only in these rooms."""
        self._steps, self._state, self._nodes = steps, steps.state, nodes
        self._job, self._rooms = job, rooms
        self._claimable = rooms if claimable is None else claimable
        self._eligible = steps.rules.eligible
        self._indexes = [*self._of_tenant()]

    def served(self) -> bool:
        """Serve the job. Return False and change nothing if no step can."""
        if not self._has_prospects():
            return False
        if self._claim_is_lost():
            return False
        if self._starts_on_node() or self._waits_for_node() or self._on_an_instance():
            return True
        # A member that joins a running gang evicts and moves no jobs.
        joins = self._job.group in self._state.gangs
        return not joins and (self._with_moves() or self._with_victims())

    def starts(self) -> bool:
        """Start the member on a node, or whole where no node starts for its tenant."""
        whole = [
            room
            for room in self._within_limits()
            if not self._nodes.starts_for(self._job, room.pool.name)
        ]
        return self._starts_on_node() or self._steps.start(self._job, whole)

    def waits(self, beside: Sequence[NodeRoom], *, owed: bool) -> bool:
        """Hold GPUs for the member on a node, first on one of these, or an instance where a node
        will start. `owed`: as for `Steps.wait_for_coming`."""
        claim = self._job.claim
        if claim and not claim.node and self._waits_for_instance(owed=owed):
            return True
        return self._waits_for_node(beside) or self._waits_for_instance(owed=owed)

    def begins(self, *, has_instance: bool = False) -> bool:
        """Enter the node that the job's instance becomes: other jobs of the tenant may wait for it,
        too. `has_instance`: whether the instance of a member that waits is free now."""
        decided = self._state.decided.decisions.get(self._job.name)
        started = decided.pool if isinstance(decided, Start) else ""
        pool = started or self._state.held_in[self._job.name]
        if self._nodes.starts_for(self._job, pool):
            room = self._nodes.begin(self._job, self._state.rooms[pool])
            room.has_instance = has_instance
        return True

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
            shut = shut or self._eligible.must_not_join(self._job, name)
            if not shut and users.admits_in(self._job, name) is not None:
                yield room, index

    def _has_prospects(self) -> bool:
        own = rank(self._job)
        if self._claimed() is not None:  # Also in a paused pool.
            return True
        for pool, index in self._indexes:
            if index.may_hold(self._job.gpus) or index.claimed:
                return True
            able = index.with_candidates()
            if able and (pool.pool.time_slice is not None or able[0].candidates[0].rank < own):
                return True
            if self._shares(pool) and may_reclaim_on(self._state, self._job, pool.pool.name, index):
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
        if self._is_in(room, PoolState.DRAINED) or not room.may_claim(self._job, now=False):
            return True
        limits, users = self._state.limits, self._state.accounts.users
        if self._nodes.shared.are_in(room.pool):
            return not limits.may_come_true(self._job, room.pool)
        over = limits.over_own(self._job, room.pool, once_stopped=True)
        return bool(over) or not users.will_admit(self._job, room.pool)

    def _claimed(self) -> NodeRoom | None:
        """The node of the job's claim, in a pool that the job may still use."""
        claim = self._job.claim
        if claim is None or not claim.node:
            return None
        may_be = any(room.pool.name == claim.pool for room in self._state.rooms_of(self._job))
        return self._nodes.rooms.get((claim.pool, claim.node)) if may_be else None

    def _is_in(self, room: NodeRoom, state: PoolState) -> bool:
        """Whether the node's pool is in this state."""
        return self._state.rooms[room.pool].pool.state is state

    def _still_claimed(self) -> NodeRoom | None:
        """The same, if the node will run the job."""
        room = self._claimed()
        if room is None or not self._claim_is_lost():
            return room
        if self._job.name in room.bound:
            self._state.journal.drop(room.bound, self._job.name)
        return None

    def _starts_on_node(self) -> bool:
        """Start the job on a node of its tenant."""
        room = self._still_claimed()
        if room is None:
            room = self._fullest(now=True)
        elif not (
            self._is_in(room, PoolState.ACTIVE)
            and room.may_claim(self._job, now=True)
            and self._state.accounts.users.admits_in(self._job, room.pool) is not None
            and self._is_within(self._state.rooms[room.pool])
        ):
            return False
        if room is None:
            return False
        classed = self._eligible.classed(self._job, room.pool)
        self._state.start_on(self._job, room, classed)
        return True

    def _waits_for_node(self, beside: Sequence[NodeRoom] = ()) -> bool:
        """Let the job wait for a node of its tenant, first for one of these."""
        room = self._still_claimed() or self._fullest(beside, now=False)
        if room is None:
            return False
        self._state.hold_on(self._job, room, self._why(room))
        return True

    def _fullest(self, beside: Sequence[NodeRoom] = (), *, now: bool) -> NodeRoom | None:
        for pool, index in self._indexes:
            if not self._is_within(pool):
                continue
            found = self._fullest_of(beside, index) or index.fullest(
                self._job, partial(self._may_use, pool), now=now
            )
            if found is not None and self._stays_evictable(found, pool):
                return found
        return None

    def _fullest_of(self, beside: Sequence[NodeRoom], index: NodeIndex) -> NodeRoom | None:
        """The fullest of these nodes that has room for the job."""
        job = self._job
        able = [
            (sum(room.open_soon), room.name)
            for room in beside
            if index.rooms.get(room.name) is room and room.fitting(job, now=False)
        ]
        return index.rooms[min(able)[1]] if able else None

    def _shares(self, pool: PoolRoom) -> bool:
        """Whether each job on the pool's nodes counts its own amount in quotas and shares."""
        return self._nodes.shared.are_in(pool.pool.name)

    def _is_within(self, pool: PoolRoom) -> bool:
        """Whether the limits and quotas leave room for the job on a node that has jobs already."""
        if self._shares(pool):
            return self._eligible.within_bounds(self._job, pool)
        return not self._state.limits.over_own(self._job, pool.pool.name)

    def _may_use(self, pool: PoolRoom, room: NodeRoom) -> bool:
        """Whether a node without jobs may have this one: it then counts for the job's project."""
        within = self._eligible.within_bounds(self._job, pool)
        shown = self._nodes.as_jobs[room.pool, room.name].demand
        return within and shown.within(pool.both) and shown.within(pool.left(self._job))

    def _stays_evictable(self, room: NodeRoom, pool: PoolRoom) -> bool:
        """Whether the quotas allow that the job, if it is never evicted, protects the node."""
        if room.empty or (room.fixed and not self._shares(pool)):
            return True
        return self._state.limits.quotas_allow(self._job, pool.pool.name)

    def _on_an_instance(self) -> bool:
        """Take an instance of a pool, free or coming free."""
        within = self._within_limits()
        served = self._steps.start(self._job, within) or self._steps.wait_for_coming(
            self._job, self._rooms, within
        )
        return served and self.begins()

    def _waits_for_instance(self, *, owed: bool) -> bool:
        """Hold an instance of a pool, free or coming free."""
        within = self._within_limits()
        claimable = self._eligible.admitting(self._job, self._claimable)
        free = [room for room in claimable if room.fits_now(self._job)]
        if not self._steps.wait_for_coming(self._job, self._claimable, within, owed=owed):
            return False
        held_in = self._state.held_in[self._job.name]
        return self.begins(has_instance=any(room.pool.name == held_in for room in free))

    def _with_moves(self) -> bool:
        """Move jobs of one node of the tenant to its other nodes."""
        for pool, index in self._indexes:
            may_use = partial(self._stays_evictable, pool=pool)
            found = self._steps.rules.node_moves.for_gpus(self._job, pool, index, may_use)
            if found is not None:
                why = self._why(found.room)
                self._state.hold_on(self._job, found.room, why, found.victims, to=found.to)
                self._nodes.guard(found.room, pool)
                return True
        return False

    def _with_victims(self) -> bool:
        """Evict lower ranks on one node of the tenant; else as a job that takes an instance."""
        if self._reclaimed_on_nodes() or self.preempts_on_node():
            return True
        job, rooms, steps = self._job, self._rooms, self._steps
        able = steps.with_rights(job, self._within_limits())
        served = (
            steps.consolidate(job, able)
            or steps.reclaim(job, able)
            or steps.preempt(job, self._eligible.admitting(job, rooms))
        )
        if not served and self._took_turn_on_nodes():
            return True
        served = served or steps.take_turn(job, rooms)
        return served and self.begins()

    def _reclaimed_on_nodes(self) -> bool:
        """Reclaim GPUs of a node that projects share."""
        for pool, index in self._indexes:
            if self._shares(pool) and self._eligible.within_bounds(self._job, pool):
                found = least_harmful_reclaim(self._state, self._job, pool, index)
                if found is not None:
                    return self._evict_on(found, pool)
        return False

    def preempts_on_node(self) -> bool:
        """Evict lower ranks of the own project on one node."""
        for pool, index in self._indexes:
            besides = self._besides(pool) if self._shares(pool) else ()
            found = least_harmful(index, self._job, pool, self._over_limits(pool), besides)
            if found is not None and self._stays_evictable(found[0], pool):
                return self._evict_on(found, pool)
        return False

    def _took_turn_on_nodes(self) -> bool:
        """Take GPUs of jobs on one node whose time slice is over."""
        for pool, index in self._indexes:
            besides = self._besides(pool) if self._shares(pool) else ()
            found = self._slices().find(pool, index, self._over_limits(pool), besides)
            if found is not None and self._stays_evictable(found[0], pool):
                return self._evict_on(found, pool, StopCause.YIELDED)
        return False

    def wake(self) -> None:
        """Bring `wake_at` forward to the next end of a slice or a `min_runtime` on these nodes."""
        decided, now = self._state.decided, self._state.now
        for pool, index in self._indexes:
            decided.wake(self._slices().ends_to_come(pool, index), now)
            decided.wake([self._nodes.protected_until], now)

    def _slices(self) -> NodeSlices:
        slices, now = self._steps.rules.slices, self._state.now
        return NodeSlices(slices=slices, nodes=self._nodes, job=self._job, now=now)

    def _evict_on(
        self, found: Victims, pool: PoolRoom, cause: StopCause = StopCause.EVICTED
    ) -> bool:
        room, victims = found
        self._state.hold_on(self._job, room, self._why(room), victims, cause=cause)
        self._nodes.guard(room, pool)
        return True

    def _besides(self, pool: PoolRoom) -> tuple[Shortfall, ...]:
        """What victims must give under the project's fair share and quota."""
        state, job, name = self._state, self._job, pool.pool.name
        counted = partial(state.accounts.scopes.counted, pool=name)
        return (
            Shortfall(state.shares.beyond(job, name), counted),
            Shortfall(state.limits.over(job, name), counted),
        )

    def _over_limits(self, pool: PoolRoom) -> Gpus:
        """The GPUs that jobs of the project must give under its limits before the job starts."""
        own, name = self._state.accounts.on_nodes.limits, pool.pool.name
        over = self._state.limits.over_own(self._job, name)
        return own.in_gpus(self._job, name, over) if own else 0

    def _within_limits(self) -> list[PoolRoom]:
        admitting = self._eligible.admitting(self._job, self._rooms)
        return [room for room in admitting if self._eligible.within_bounds(self._job, room)]

    def _why(self, room: NodeRoom) -> Reason:
        pool = self._state.rooms[room.pool].pool
        if pool.state is not PoolState.ACTIVE:
            return PoolClosed(pool=pool.name, state=pool.state)
        return NodeComing(
            pool=room.pool,
            node=room.name,
            needed=self._job.gpus,
            free=sum(amount for amount in room.free if amount > 0),
            coming=sum(amount for amount in room.coming if amount > 0),
            ready=room.ready,
        )
