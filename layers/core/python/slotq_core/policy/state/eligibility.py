"""The rooms where a job may start, whatever is free: pools, gang, limits and quotas."""

from __future__ import annotations

from collections.abc import Sequence

from slotq_core.model.jobs import Job
from slotq_core.model.projects import EVERYWHERE
from slotq_core.policy.lifecycle.demotion import admitted_in
from slotq_core.policy.order import Position, position
from slotq_core.policy.plan import Evict
from slotq_core.policy.state.groups.gangs import LiveGang
from slotq_core.policy.state.plan_state import PlanState
from slotq_core.policy.state.pool_room import PoolRoom


class Eligibility:
    """Answers questions about a job and a room. Changes nothing."""

    def __init__(self, state: PlanState) -> None:
        self._state = state

    def admitting(self, job: Job, rooms: Sequence[PoolRoom]) -> list[PoolRoom]:
        """The rooms where the job may start: available, with the rights, and not draining for a
        job ahead of it."""
        return [room for room in rooms if self._admits(room, job)]

    def closed_to(self, job: Job, room: PoolRoom) -> bool:
        """Whether the room drains for a job ahead of this one, so that this one may not start here
        without a claim. "A drain always holds back the later jobs of its own project"; a drain
        beyond its project's share holds back no job of another project within its own share. None
        holds back another project's job on slots that are reserved for it."""
        drain, pool = room.drain, room.pool.name
        if drain is None or drain.job == job.name or (job.group and job.group == drain.gang):
            return False
        if job.claim is not None and job.claim.pool == pool:
            return False
        if job.project == drain.project:
            return self._is_tried_last(job, pool) or self.place(job) > drain.place
        rights = self._state.reservations
        if rights is not None and rights.cover(job, pool):
            return False
        within_share = self._state.shares.within
        return not (drain.beyond_share and within_share(self.with_gang(job, pool), pool))

    def ends_too_late(self, job: Job, room: PoolRoom) -> bool:
        """Whether the pool shrinks before the job, or the gang that starts or runs with it, ends,
        and would cut the job off, or a reservation needs its slots before."""
        closing, gang = room.closing, self._state.gangs.get(job.group)
        if closing is None:
            return False
        if gang is None:
            return closing.keeps_out([job], job.demand.slots)
        if gang.runs:
            return closing.keeps_out([*gang.active, job], job.demand.slots)
        return closing.keeps_out(gang.waiting, gang.least_in(room.pool.name, job).demand.slots)

    def drain_is_outdated(self, room: PoolRoom) -> bool:
        """Whether the room drains for a job that may not start there any more: a limit keeps it
        back, or its quota does."""
        if room.drain is None:
            return False
        job = self._state.waiting[room.drain.job]
        if self._state.concurrency.keeps_back(job):
            return True
        return not self.within_bounds(job, room)

    def place(self, job: Job) -> Position:
        """The place of the job, or of the gang that starts with it, in its project's order."""
        gang = self._gang_to_start(job)
        return position(gang.representative if gang else job, self._state.precedence)

    def with_gang(self, job: Job, pool: str) -> Job:
        """The job with all that its gang, if it starts with one, asks for at least in the quotas
        that count the pool."""
        gang = self._gang_to_start(job)
        if gang is None:
            return job
        by_pool = self._state.accounts.scopes.of(pool) != EVERYWHERE
        return gang.least_in(pool if by_pool else None, job)

    def within_bounds(self, job: Job, room: PoolRoom) -> bool:
        """Whether the gang, the limits and the quotas of the job allow a start in this room."""
        name, limits = room.pool.name, self._state.limits
        if job.group and self.must_not_join(job, name):
            return False
        return limits.allow(job, name) and limits.quotas_allow(job, name)

    def must_not_join(self, job: Job, pool: str) -> bool:
        """Whether the job would endanger its running gang there, join one that this plan evicts, in
        part or whole, or one that is ending."""
        if self.endangers_gang(job, pool) or self._joins_evicted_gang(job):
            return True
        gang = self._state.gangs.get(job.group)
        return gang is not None and gang.runs and gang.is_ending

    def endangers_gang(self, job: Job, pool: str) -> bool:
        """Whether the running gang that the job joins could, with the job, be reclaimed, or be
        evicted for jobs that could not evict it before. Of an elastic gang only the job itself
        could be reclaimed."""
        gang = self._state.gangs.get(job.group)
        if gang is None or not gang.runs:
            return False
        counted = self.classed(job, pool) or job
        beyond = not gang.group.elastic and bool(self._state.shares.beyond(job, pool))
        return beyond or gang.is_lowered_by(counted)

    def classed(self, job: Job, pool: str) -> Job | None:
        """The AUTO job in the class that admits it there; None if no class does, or for other
        jobs."""
        waiting, users = self._state.waiting[job.name], self._state.accounts.users
        admitting = users.admits_in(waiting, pool) if waiting.auto else None
        if not admitting:
            return None
        return admitted_in(waiting, users.classes[admitting], users.classes)

    def _gang_to_start(self, job: Job) -> LiveGang | None:
        gang = self._state.gangs.get(job.group)
        return gang if gang and not gang.runs else None

    def _is_tried_last(self, job: Job, pool: str) -> bool:
        """Whether a bar on the job, or on its gang, delays its turn there until after all
        others."""
        gang = self._gang_to_start(job)
        barred = self._state.barred
        return any(
            pool in barred.get(member.name, ()) for member in (gang.waiting if gang else [job])
        )

    def _admits(self, room: PoolRoom, job: Job) -> bool:
        if room.drain and self.closed_to(job, room):  # Where pools drain, most jobs are kept out.
            return False
        if room.unavailable or room.rights.keeps_out(job):
            return False
        return not self.ends_too_late(job, room)

    def _joins_evicted_gang(self, job: Job) -> bool:
        """Whether the job would join a gang that this plan evicts."""
        gang = self._state.gangs.get(job.group)
        decisions = self._state.decided.decisions.values() if gang and gang.runs else ()
        evictions = (decision for decision in decisions if isinstance(decision, Evict))
        return any(
            victim.group == job.group for eviction in evictions for victim in eviction.victims
        )
