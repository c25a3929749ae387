"""Pools whose size changes with time: what must not start, and what is stopped, before they shrink.

A job that is preemptible, not only beyond a quota, and has checkpoints is asked to suspend when its
pool shrinks by more than the pool can spare; it waits again at its place, or goes on in another
pool. Any other job starts only where it ends before that, however long it may run; one that still
runs when the slots are really gone (the hours have changed since) is stopped then.

Reservations of other projects keep jobs out in the same way (`reservations`); they stop none.

See docs/policy-decisions.md#pools-with-hours.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

from slotq_core.model.capacity.reservations import moments_of
from slotq_core.model.capacity.schedule import (
    SizeChange,
    in_force,
    next_opening,
    slots_at,
    slots_left_at,
)
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.pools import Pool
from slotq_core.model.reasons import EndsTooLate, PoolNotYetOpen, Reason
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.lifecycle.hours.runtimes import may_run_for
from slotq_core.policy.order import position, rank
from slotq_core.policy.plan import Close, DropClaim

if TYPE_CHECKING:
    from slotq_core.policy.lifecycle.hours.reservations import Clash


def loses(job: Job) -> bool:
    """Whether a job that is stopped by its pool's hours loses its work, or must not be stopped. One
    that was accepted before its pool had hours counts only if it is not always preemptible: how
    long it may run is not known."""
    if not job.always_evictable:
        return True
    return bool(job.longest_attempt) and not (job.checkpoints or job.gpus)


class Closing:
    """What the coming changes of a pool's size, and reservations there, keep out of it, during one
    plan."""

    def __init__(self, pool: Pool, active: Iterable[Job], now: int) -> None:
        """`active`: the jobs that hold slots of the pool. `now`: in ms."""
        self._pool, self._now = pool, now
        self._fixed = [job for job in active if job.state is not JobState.STOPPING and loses(job)]
        """The jobs there that must not be stopped."""
        self.is_shut = not slots_at(pool.schedule, now, of=pool.capacity.slots)
        """Whether the pool offers no slots now."""

    def keeps_out(self, jobs: Sequence[Job], slots: int) -> bool:
        """Whether these jobs, which start together and take so many slots here, would be cut off by
        a change of the pool's size, or be in the way of a reservation."""
        if _cut(self._pool, jobs, slots, self._now, self._fixed) is not None:
            return True
        return _clash(self._pool, jobs, slots, self._now, self._fixed) is not None

    def next_chance(self, job: Job) -> tuple[int | None, bool]:
        """When (ms) the pool's size or its reservations next change so that the job could start
        (None: not known), and whether a reservation begins or ends then."""
        at = _next_chance(self._pool, job, self._now)
        return at, at in {*moments_of(self._pool.reservations, self._now)}

    def why(self, job: Job) -> Reason:
        """Why the pool takes the job not now."""
        pool, needed = self._pool, job.demand.slots
        offered = slots_at(pool.schedule, self._now, of=pool.capacity.slots)
        cut = _cut(pool, [job], needed, self._now, self._fixed)
        if cut is not None and needed <= offered:
            return EndsTooLate(
                pool=pool.name,
                until=cut.at,
                moment=cut.said,
                longest=job.longest_attempt,
                slots=cut.slots or 0,
                cause=cut.cause,
                preemptible=job.always_evictable,
            )
        clash = _clash(pool, [job], needed, self._now, self._fixed)
        if clash is not None and needed <= offered:
            from slotq_core.policy.lifecycle.hours.reservations import set_aside

            return set_aside(pool, job, clash)
        present = in_force(pool.schedule, self._now)
        opens = next_opening(pool.schedule, self._now, needed)
        return PoolNotYetOpen(
            pool=pool.name,
            needed=needed,
            slots=offered,
            until=opens.at if opens else None,
            moment=opens.said if opens else "",
            cause=present.cause if present else "",
            why=present.why if present else "",
        )

    def give(self, job: Job) -> None:
        """Count a job that starts here in this plan."""
        if loses(job):
            self._fixed.append(job)

    def take_back(self, job: Job) -> None:
        """Undo the last `give` of the job."""
        if job in self._fixed:
            self._fixed.remove(job)


def _cut(
    pool: Pool, jobs: Sequence[Job], slots: int, begin: int, fixed: Iterable[Job] = ()
) -> SizeChange | None:
    """The change of the pool's size that cuts off these jobs, which begin at a moment (ms) and take
    so many slots; None: none does. `fixed`: the jobs there that must not be stopped either."""
    if not any(map(loses, jobs)):
        return None
    ends = begin + max(map(may_run_for, jobs))
    for change in pool.schedule:
        if not begin < change.at < ends or change.slots is None:
            continue
        held = sum(job.demand.slots for job in fixed if ends_at(job, begin) > change.at)
        if slots > change.slots - held:
            return change
    return None


def _clash(
    pool: Pool, jobs: Sequence[Job], slots: int, begin: int, fixed: Iterable[Job] = ()
) -> Clash | None:
    """What keeps these jobs from reserved slots of the pool; None: nothing does."""
    if not pool.reservations:
        return None
    # Few pools have reservations, and no cold start should pay for them.
    from slotq_core.policy.lifecycle.hours.reservations import clash

    return clash(pool, jobs, slots, begin, fixed)


def ends_at(job: Job, now: int) -> int:
    """When (ms) a job that holds slots has ended at the latest."""
    since = job.attempt.running_since if job.attempt else None
    return (now if since is None else since) + may_run_for(job)


def _next_chance(pool: Pool, job: Job, now: int) -> int | None:
    """When (ms) the pool's size next changes so that the job could start; None: not known."""
    later = {change.at for change in pool.schedule if change.at > now}
    later.update(moments_of(pool.reservations, now))
    return next((at for at in sorted(later) if _may_start(pool, job, at)), None)


def _may_start(pool: Pool, job: Job, at: int) -> bool:
    """Whether the job could start at a moment (ms) if no other job were there."""
    needed = job.demand.slots
    if needed > slots_at(pool.schedule, at, of=pool.capacity.slots):
        return False
    return _cut(pool, [job], needed, at) is None and _clash(pool, [job], needed, at) is None


def closings(snapshot: Snapshot, now: int, gone: AbstractSet[str]) -> Iterator[Close | DropClaim]:
    """The stops of jobs in pools that have shrunk, and the claims that their jobs cannot use before
    that. `gone`: jobs that are stopped already."""
    gangs = {group.name for group in snapshot.groups if group.max_parallel is None}
    stopped = set(gone)
    for pool in snapshot.pools:
        if not (pool.schedule or pool.reservations):
            continue
        active = [job for job in snapshot.active if pool.name in dict(job.holds)]
        jobs = _to_stop(pool, active, snapshot, gangs, now)
        jobs = [job for job in jobs if job.name not in stopped]
        if jobs:
            stopped |= {job.name for job in jobs}
            yield Close(pool=pool.name, jobs=tuple(jobs))
        closing = Closing(pool, active, now)
        owed = (job for job in snapshot.waiting if job.claim and job.claim.pool == pool.name)
        for job in sorted(owed, key=position):
            too_late = closing.is_shut or closing.keeps_out([job], job.demand.slots)
            if too_late and job.group not in gangs:
                yield DropClaim(job=job)


def closing_times(snapshot: Snapshot, now: int) -> Iterator[int]:
    """When (ms) changes of pools' sizes, and reservations, next matter: jobs may start then, or
    have to stop, also those that start now."""
    for pool in snapshot.pools:
        if not (pool.schedule or pool.reservations):
            continue
        jobs = [job for job in (*snapshot.waiting, *snapshot.due) if pool.name in job.pools]
        chances = [_next_chance(pool, job, now) for job in jobs]
        yield from (at for at in chances if at is not None)
        if any(pool.name in dict(job.holds) for job in snapshot.active) or any(
            _may_start(pool, job, now) for job in jobs
        ):
            ends = (at for change in pool.schedule for at in (change.at, change.at + change.grace))
            yield from (at for at in ends if at > now)


def _to_stop(
    pool: Pool, active: Iterable[Job], snapshot: Snapshot, gangs: set[str], now: int
) -> list[Job]:
    """The jobs that have to stop, gangs whole: those that save while the pool is too small for all,
    and the others once the slots are gone. The lowest rank first, then the last to enter."""
    present = in_force(pool.schedule, now)
    if present is None or present.slots is None or present.keeps:
        return []
    units: dict[str, list[Job]] = {}
    for job in active:
        if job.state is not JobState.STOPPING:
            units.setdefault(job.group if job.group in gangs else f"{job.name}/", []).append(job)
    used = sum(_slots(job, pool) for jobs in units.values() for job in jobs)
    found: list[Job] = []
    left = slots_left_at(pool.schedule, now, of=pool.capacity.slots)
    for saves, most in ((True, present.slots), (False, left)):
        for jobs in sorted(units.values(), key=_last_first):
            if used <= most:
                break
            members = _together(jobs, snapshot, gangs)
            if jobs[0] in found or any(map(loses, members)) is saves:
                continue
            used -= sum(_slots(job, pool) for job in jobs)
            found += members
    return found


def _together(jobs: list[Job], snapshot: Snapshot, gangs: set[str]) -> list[Job]:
    """The jobs with the other running members of their gang, also in other pools."""
    if jobs[0].group not in gangs:
        return jobs
    group = [job for job in snapshot.active if job.group == jobs[0].group]
    return sorted((job for job in group if job.state is not JobState.STOPPING), key=position)


def _last_first(jobs: list[Job]) -> tuple[object, ...]:
    lowest = min(map(rank, jobs))
    return lowest, -max(job.entry_time for job in jobs), [*map(_reversed, jobs[0].name)]


def _reversed(letter: str) -> int:
    return -ord(letter)


def _slots(job: Job, pool: Pool) -> int:
    return dict(job.holds)[pool.name].slots
