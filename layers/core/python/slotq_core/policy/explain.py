"""Step 5, explain: why a job that was looked at waits, as a typed reason with its numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slotq_core.model import Demand, Job
from slotq_core.policy.fit import PoolRoom
from slotq_core.policy.preempt import (
    is_protected,
    lower_ranked,
    may_evict,
    protected_until,
)
from slotq_core.reasons import (
    HeldForOthers,
    LowerRankedProtected,
    NoFreeSlots,
    PoolBacksOff,
    PoolIsProbed,
    PoolsTooSmall,
    Reason,
    Reserved,
    SlotsComing,
)


def coming(job: Job, room: PoolRoom) -> Reason:
    """The job waits for slots that are coming free, or for the pool that it has a claim in.

    Asked before they are taken out of the room.
    """
    if room.unwell:
        return _unwell(job, room)
    return SlotsComing(
        pool=room.pool.name,
        needed=job.demand.slots,
        free=max(0, room.free.slots),
        coming=room.coming.slots,
    )


def reserved(job: Job, room: PoolRoom) -> Reason:
    return Reserved(pool=room.pool.name, needed=job.demand.slots, free=max(0, room.free_now.slots))


def too_small(job: Job, rooms: Iterable[PoolRoom]) -> Reason:
    sizes = (room.size.slots for room in rooms)
    return PoolsTooSmall(needed=job.demand.slots, largest=max(sizes, default=0))


def blocked(job: Job, rooms: Sequence[PoolRoom], now: int) -> Reason:
    """What keeps the job out of the pool where it is nearest to a start."""
    well = [room for room in rooms if not room.unwell]
    if not well:
        return _unwell(job, rooms[0])
    room = min(well, key=lambda each: job.demand.slots - max(0, each.free_now.slots))
    free = max(0, room.free_now.slots)
    holder = room.drains_for or room.holder or next(iter(room.claims), "")
    if job.demand.within(room.free_now) and holder:
        return HeldForOthers(pool=room.pool.name, needed=job.demand.slots, free=free, holder=holder)
    lower = lower_ranked(job, room)
    held = sum((other.demand for other in lower), Demand())
    if lower and job.demand.within(room.left(job, may_evict) + held):
        return LowerRankedProtected(
            pool=room.pool.name,
            needed=job.demand.slots,
            free=free,
            until=min(_protections(job, room, now), default=None),
        )
    return NoFreeSlots(
        pool=room.pool.name,
        needed=job.demand.slots,
        free=free,
        capacity=room.size.slots,
        lower_ranked=held.slots,
    )


def _unwell(job: Job, room: PoolRoom) -> Reason:
    health = room.pool.health
    if room.rests:
        return PoolBacksOff(pool=room.pool.name, until=health.not_before or 0, cause=health.message)
    return PoolIsProbed(pool=room.pool.name, needed=job.demand.slots, probe=room.probe)


def protections_end(job: Job, rooms: Iterable[PoolRoom], now: int) -> Iterable[int]:
    """The moments at which a job of lower rank loses its protection, in any of the pools."""
    for room in rooms:
        yield from _protections(job, room, now)


def _protections(job: Job, room: PoolRoom, now: int) -> Iterable[int]:
    for other in room.running:
        if may_evict(job, other) and is_protected(other, room.pool, now):
            until = protected_until(other, room.pool)
            if until is not None:
                yield until
