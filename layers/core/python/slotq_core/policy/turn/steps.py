"""The steps of a turn, as cycle.py orders them. Each finds a proposal and has it applied."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from slotq_core.model.attempts import StopCause
from slotq_core.model.jobs import Claim, Job
from slotq_core.policy.actions.action_rules import Rules
from slotq_core.policy.actions.consolidate import Moves
from slotq_core.policy.actions.victims import Eviction
from slotq_core.policy.explain import waiting as explain
from slotq_core.policy.explain.timers import known_times
from slotq_core.policy.lifecycle.missing_rights import no_eviction_until, takes_only_free_slots
from slotq_core.policy.order import entered
from slotq_core.policy.plan import Evict, Move
from slotq_core.policy.state.plan_state import PlanState
from slotq_core.policy.state.pool_room import PoolRoom


class Steps:
    """The steps of a turn for one job. Each step returns whether it served the job."""

    def __init__(self, state: PlanState, rules: Rules) -> None:
        self.state, self.rules = state, rules
        self.has_drained = False
        """Whether a pool has begun to drain in this plan."""

    def start(self, job: Job, rooms: Sequence[PoolRoom]) -> bool:
        """Start the job on free slots, in the first room where it fits: before others in one that
        has warm instances for it."""
        if job.warm_key:
            rooms = sorted(rooms, key=lambda room: not (room.warm and room.warm.is_for(job)))
        for room in rooms:
            if room.fits_now(job) and not room.waits_for_release(job):
                classed = self.rules.eligible.classed(job, room.pool.name)
                self.state.start(job, room, classed)
                return True
        return False

    def backfill(self, job: Job, rooms: Iterable[PoolRoom]) -> bool:
        """Start the job on free slots in the first room that drains for another, if that delays the
        other in no way. A start that would use up a limit of the other is taken back."""
        for room in rooms if self.has_drained else ():
            if room.drain and room.fits_now(job) and self.rules.backfill.lets_pass(job, room):
                before = self.state.journal.checkpoint()
                self.state.start(job, room, self.rules.eligible.classed(job, room.pool.name))
                if not self.rules.eligible.drain_is_outdated(room):
                    return True
                self.state.journal.rollback(before)
        return False

    def wait_for_coming(
        self,
        job: Job,
        rooms: Sequence[PoolRoom],
        within: Sequence[PoolRoom],
        *,
        owed: bool = False,
    ) -> bool:
        """Hold coming slots for the job: first in the pool of its claim, then in order.

        A claim stays valid while its pool is unavailable for a time, unless others have used up a
        limit or quota since, or a missing right keeps the job out. `owed`: the job will get a
        claim."""
        claimed = [room for room in rooms if self._claim_holds(job, room)] if job.claim else []
        for room in (*claimed, *within):
            if room.fits_soon(job):
                promised = not (owed or job.claim)
                self.state.hold(job, room, explain.coming(job, room), promised=promised)
                self.wake(job, claimed)
                return True
        return False

    def _claim_holds(self, job: Job, room: PoolRoom) -> bool:
        """Whether the job's claim is to this room and may still come true."""
        owed, pool = job.claim is not None and job.claim.pool, room.pool.name
        able = owed == pool and not room.rights.keeps_out(job)
        return able and self.state.limits.may_come_true(job, pool)

    def go_to_destination(
        self, job: Job, rooms: Sequence[PoolRoom], within: Sequence[PoolRoom]
    ) -> bool:
        """Start the job, or hold coming slots, only in its destination pool: in its old pool it
        would take the room that another job gained by the move."""
        there = [room for room in within if job.claim and room.pool.name == job.claim.pool]
        return self.start(job, there) or self.wait_for_coming(job, rooms, ())

    def consolidate(self, job: Job, rooms: Sequence[PoolRoom]) -> bool:
        """Move running jobs to other pools. One that this plan started loses its start instead. Or
        move all jobs of a node to other nodes."""
        found = self.rules.consolidation.find(job, rooms)
        if found is None:
            return self.state.nodes is not None and self._empty_a_node(job, rooms)
        moved = tuple(self._move(found))
        if not moved:
            return self.start(job, [found.room])
        self._hold_claimed(job, found.room)
        waiting, claim = self.state.waiting[job.name], self.state.claim_of(job.name)
        self.state.decided.decide(job.name, Move(beneficiary=waiting, moved=moved, claim=claim))
        return True

    def reclaim(self, job: Job, rooms: Sequence[PoolRoom]) -> bool:
        find = self.rules.reclaims.find
        changed = [room for room in rooms if room.jobs.placed]
        found = find(job, rooms) or find(job, changed, once_started=True)
        if found is None and self.state.reservations is not None:
            return self.take_reserved(job, rooms)
        return self.evict(job, found)

    def take_reserved(self, job: Job, rooms: Sequence[PoolRoom]) -> bool:
        """Take back slots that are reserved for the job's project."""
        rights = self.state.reservations
        if rights is None:
            return False
        from slotq_core.policy.actions.reservation_reclaim import ReservationReclaim

        search = ReservationReclaim(state=self.state, rights=rights)
        return self.evict(job, search.find(job, [room.pool.name for room in rooms]))

    def preempt(self, job: Job, rooms: Sequence[PoolRoom]) -> bool:
        allow = self.state.limits.quotas_allow
        rooms = [room for room in self.with_rights(job, rooms) if allow(job, room.pool.name)]
        return self.evict(job, self.rules.preemption.find(job, rooms))

    def take_turn(self, job: Job, rooms: Sequence[PoolRoom]) -> bool:
        """Take the slots of a job whose time slice is over."""
        allow, waiting = self.state.limits.quotas_allow, self.state.waiting
        sliced = [room for room in rooms if room.pool.time_slice is not None]
        well = [room for room in self.with_rights(job, sliced) if not room.unavailable]
        rooms = [room for room in well if allow(job, room.pool.name)]
        drains = {
            room.pool.name: waiting[room.drain.job]
            for room in rooms
            if room.drain and self.rules.eligible.closed_to(job, room)
        }
        return self.evict(job, self.rules.slices.find(job, rooms, drains), StopCause.YIELDED)

    def evict(self, job: Job, found: Eviction | None, cause: StopCause = StopCause.EVICTED) -> bool:
        """Evict the victims and hold their slots for the job, or start it if none really runs."""
        if found is None:
            return False
        victims = self.state.evict_whole(found.victims)
        room = found.room
        if not victims and job.group not in self.state.gangs:
            return self.start(job, [room]) or self.wait_for_coming(job, [room], [room])
        self._hold_claimed(job, room)
        if victims:
            waiting, claim = self.state.waiting[job.name], self.state.claim_of(job.name)
            evict = Evict(beneficiary=waiting, victims=victims, claim=claim, cause=cause)
            self.state.decided.decide(job.name, evict)
            if room.both.slots > 0:
                self.state.journal.add(self.state.surplus, room.pool.name)
            if cause is StopCause.YIELDED:
                self.state.decided.has_yielded(victims)
        return True

    def _hold_claimed(self, job: Job, room: PoolRoom) -> None:
        """Hold slots for a job that others are stopped for. If free slots are enough, because only
        the claims of others lacked the rest, the job starts in the next plan of this moment."""
        ready = job.demand.within(room.free) and job.group not in self.state.gangs
        self.state.hold(job, room, explain.coming(job, room))
        if ready:
            room.expect_start(job)

    def with_rights(self, job: Job, rooms: Sequence[PoolRoom]) -> list[PoolRoom]:
        """The rooms where the job has the rights to start, that stay open for as long as it needs,
        and where no quota of something else has refused it lately. Only there does it evict
        others."""
        now = self.state.now
        return [
            room
            for room in rooms
            if not (room.rights.missing(job) or takes_only_free_slots(job, room.pool.name, now))
            if not self.rules.eligible.ends_too_late(job, room)
        ]

    def wake(self, job: Job, rooms: Sequence[PoolRoom]) -> None:
        """Bring `wake_at` forward to the next time that may change the job's situation."""
        timed = [room for room in rooms if room.timed]
        if job.refused_in:
            self.state.decided.wake([no_eviction_until(job)], self.state.now)
        if timed:
            entry, slices = entered(job, self.state.precedence.yields), self.rules.slices
            moments = [at for room in timed for _, at in known_times(job, entry, room, slices)]
            self.state.decided.wake(moments, self.state.now)

    def _empty_a_node(self, job: Job, rooms: Sequence[PoolRoom]) -> bool:
        """Move the jobs of a node to other nodes, in the first pool where that is possible: the job
        gets the node's instance."""
        for room in rooms if self.state.nodes else ():
            found = self.rules.node_moves.for_instance(job, room)
            if found is not None and found.room.node is not None:
                moved = self.state.empty(found.room, found.victims, found.to)
                self._hold_claimed(job, room)
                waiting, claim = self.state.waiting[job.name], self.state.claim_of(job.name)
                ended = (found.room.node,)
                move = Move(beneficiary=waiting, moved=moved, claim=claim, nodes=ended)
                self.state.decided.decide(job.name, move)
                return True
        return False

    def _move(self, found: Moves) -> list[tuple[Job, Claim]]:
        """Carry out the moves. Return the running jobs, each with its claim in the destination."""
        moved = []
        for job, room in found.to:
            if job.name in found.room.jobs.placed:
                self.state.evict([(job, found.room.pool.name)])
                continue
            counted = (job.admitted_class or job.priority_class) if job.auto else ""
            pool, now = room.pool.name, self.state.now
            claim = Claim(
                pool=pool, amount=job.demand, since=now, moved=True, priority_class=counted
            )
            self.state.move(job, found.room, claim, replace(job, claim=claim))
            moved.append((job, claim))
        return moved
