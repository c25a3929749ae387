"""Reservations: what other projects must not start in a pool, because it would not be gone in time.

A job that may always be evicted starts as ever, and gives its slots back when a job of the
reservation's project needs them. Any other job, a semi-preemptible one too, starts only where, at
each moment until it has ended, all that is reserved for other projects has room beside such jobs.

See docs/policy-decisions.md#reservations.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from slotq_core.model.capacity.reservations import Reservation, held_beyond, reserved_at
from slotq_core.model.capacity.schedule import slots_at
from slotq_core.model.jobs import Job
from slotq_core.model.pools import Pool
from slotq_core.model.reasons import SlotsSetAside
from slotq_core.policy.lifecycle.hours.closing import ends_at
from slotq_core.policy.lifecycle.hours.runtimes import may_run_for
from slotq_core.timestamps import wall_clock

LONGEST_STOP = 120_000
"""How long (ms) SageMaker lets a training job end once its time is over."""


class Clash(NamedTuple):
    """A moment at which a job would hold slots that are reserved for others."""

    reserved: int
    """The slots that are reserved for others then."""
    reservation: Reservation
    """The largest of theirs."""


def clash(
    pool: Pool, jobs: Sequence[Job], slots: int, begin: int, active: Iterable[Job] = ()
) -> Clash | None:
    """The first clash of these jobs of one project, which begin together at a moment (ms) and take
    so many slots of the pool; None: they may start. `active`: the jobs there."""
    if all(job.always_evictable for job in jobs):
        return None
    project = jobs[0].project
    ends = begin + max(map(may_run_for, jobs)) + LONGEST_STOP
    fixed = [
        (job, ends_at(job, begin) + LONGEST_STOP) for job in active if not job.always_evictable
    ]
    changes = (change.at for change in pool.schedule if begin < change.at < ends)
    begins = (r.begins for r in pool.reservations if begin < r.begins < ends)
    for moment in sorted({begin, *changes, *begins}):
        reserved = reserved_at(pool.reservations, moment)
        holding: dict[str, int] = {}
        for job, until in fixed:
            if until > moment:
                holding[job.project] = holding.get(job.project, 0) + job.demand.slots
        holding[project] = holding.get(project, 0) + slots
        if holding[project] <= reserved.pop(project, 0) or not reserved:
            continue
        room = slots_at(pool.schedule, moment, of=pool.capacity.slots) - pool.foreign.slots
        if held_beyond(reserved, holding) > room:
            return _described(pool, reserved, moment)
    return None


def set_aside(pool: Pool, job: Job, found: Clash) -> SlotsSetAside:
    """The reason of a job that the clash keeps out of the pool."""
    reservation = found.reservation
    return SlotsSetAside(
        pool=pool.name,
        needed=job.demand.slots,
        reserved=found.reserved,
        capacity=pool.capacity.slots,
        project=reservation.project,
        begins=reservation.begins,
        ends=reservation.ends,
        from_moment=wall_clock(reservation.begins, reservation.zone),
        to_moment=wall_clock(reservation.ends, reservation.zone),
        longest=job.longest_attempt,
    )


def _described(pool: Pool, reserved: dict[str, int], moment: int) -> Clash:
    theirs = (r for r in pool.reservations if r.lasts_at(moment) and r.project in reserved)
    largest = max(theirs, key=lambda r: (r.slots, -r.begins, r.project))
    return Clash(sum(reserved.values()), largest)
