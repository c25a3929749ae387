"""Step 5, explain: why a job that was looked at waits, as a typed reason with its numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slotq_core.model import Demand, Job
from slotq_core.policy.accounts import Accounts
from slotq_core.policy.fit import Entitled, PoolRoom
from slotq_core.policy.gang import Gang
from slotq_core.policy.preempt import outranks
from slotq_core.policy.reclaim import may_reclaim
from slotq_core.reasons import (
    GangBlocked,
    GangIncomplete,
    HeldForOthers,
    LimitReached,
    LowerRankedProtected,
    NoFreeSlots,
    PoolBacksOff,
    PoolIsProbed,
    PoolsTooSmall,
    QuotaForFixed,
    Reason,
    Reserved,
    ShareUsed,
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


def taken_back(job: Job, room: PoolRoom) -> Reason:
    """What it would have been given goes to a job that may reclaim it."""
    return HeldForOthers(
        pool=room.pool.name,
        needed=job.demand.slots,
        free=max(0, room.free_now.slots),
        holder="a project that deserves it",
    )


def incomplete(gang: Gang) -> Reason:
    """Too few of its members wait for it to start."""
    here = {job.name for job in gang.waiting}
    return GangIncomplete(
        group=gang.group.name,
        needed=gang.needed,
        waiting=len(here),
        missing=tuple(sorted(gang.mandatory - here)),
    )


def gang_blocked(gang: Gang, drain: PoolRoom | None) -> Reason:
    return GangBlocked(
        group=gang.group.name,
        needed=gang.needed,
        drains=drain.pool.name if drain else "",
    )


def blocked(job: Job, rooms: Sequence[PoolRoom], accounts: Accounts, entitled: Entitled) -> Reason:
    """What keeps the job out of the pool where it is nearest to a start."""
    well = [room for room in rooms if not room.unwell]
    if not well:
        return _unwell(job, rooms[0])
    room = min(well, key=lambda each: job.demand.slots - max(0, each.free_now.slots))
    bound = _bound(job, room, accounts)
    if bound:
        return bound
    free = max(0, room.free_now.slots)
    holder = room.drains_for or room.holder or next(iter(room.claims), "")
    if job.demand.within(room.free_now) and holder:
        return HeldForOthers(pool=room.pool.name, needed=job.demand.slots, free=free, holder=holder)
    lower = [other for other in room.running(job.project) if outranks(job, other)]
    held = sum((other.demand for other in lower), Demand())
    if lower and job.demand.within(room.left(job, entitled) + held):
        return LowerRankedProtected(
            pool=room.pool.name,
            needed=job.demand.slots,
            free=free,
            until=protection_ends(job, room),
        )
    chain = accounts.of(job, room.pool.name)
    if chain and not may_reclaim(job, chain):
        return ShareUsed(
            pool=room.pool.name,
            needed=job.demand.slots,
            project=chain[0].name,
            used=chain[0].used.slots,
            share=chain[0].share.slots,
            quota=chain[0].quota.slots,
        )
    return NoFreeSlots(
        pool=room.pool.name,
        needed=job.demand.slots,
        free=free,
        capacity=room.size.slots,
        lower_ranked=held.slots,
    )


def _bound(job: Job, room: PoolRoom, accounts: Accounts) -> Reason | None:
    """The limit, or the quota for what cannot be evicted, that keeps the job back."""
    for account in accounts.of(job, room.pool.name):
        if account.over_limit(job.demand):
            limit = account.limit.slots if account.limit else 0
            held = (account.used + account.stopping).slots
            return LimitReached(owner=account.name, needed=job.demand.slots, used=held, limit=limit)
        if not job.evictable and not (account.fixed + job.demand).within(account.quota):
            return QuotaForFixed(
                owner=account.name,
                needed=job.demand.slots,
                used=account.fixed.slots,
                quota=account.quota.slots,
            )
    return None


def _unwell(job: Job, room: PoolRoom) -> Reason:
    health = room.pool.health
    if room.rests:
        return PoolBacksOff(pool=room.pool.name, until=health.not_before or 0, cause=health.message)
    return PoolIsProbed(pool=room.pool.name, needed=job.demand.slots, probe=room.probe)


def protection_ends(job: Job, room: PoolRoom) -> int | None:
    """When the first of those that might be evicted or moved for this job loses its protection."""
    for until, other in room.protections:
        lower = other.project != job.project or outranks(job, other)
        if other.evictable and (lower or room.pool.consolidate):
            return until
    return None
