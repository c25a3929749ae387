"""What follows a turn that could not serve its job (steps 3g and 5).

A pool may drain for the job, the turn may count as a failed attempt, and the job gets a reason.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from slotq_core.model.jobs import Job
from slotq_core.model.reasons import Reason
from slotq_core.policy.actions.reserve import pool_to_drain
from slotq_core.policy.explain import waiting as explain
from slotq_core.policy.lifecycle.start_attempts import failed_attempt
from slotq_core.policy.order import entered
from slotq_core.policy.state.gangs import Gang
from slotq_core.policy.state.pool_room import PoolRoom
from slotq_core.policy.turn.walk import Walk


def blocked(walk: Walk, job: Job, rooms: Sequence[PoolRoom], able: Sequence[PoolRoom]) -> bool:
    """Explain why the job waits, and drain a pool if `reserve_after` has passed. Return False.

    A job kept back by a quota or a limit drains no pool.
    """
    if walk.give_up(job):
        return False
    large = [room for room in rooms if job.demand.within(room.size)]
    walk.wake(job, rooms)
    entitled = walk.entitled
    entry = entered(job, walk.yields)
    may_drain = (r for r in large if r.timed and r in able and walk.within_bounds(job, r))
    drain = pool_to_drain(job, entry, may_drain, entitled, walk.now)
    if drain:
        walk.reasons[job.name] = explain.reserved(job, drain)
        drain.drains_for = job.name
    elif large:
        why = _endangers(walk, job, able) or explain.blocked(job, large, walk.sheets)
        _in_vain(walk, [job], why)
    else:
        _in_vain(walk, [job], explain.too_small(job, rooms, walk.accounts))
    return False


def _endangers(walk: Walk, job: Job, able: Sequence[PoolRoom]) -> Reason | None:
    """The reason of a job that has room but would endanger its running gang; else None."""
    free = (room for room in able if room.fits_now(job, walk.entitled))
    room = next((r for r in free if walk.endangers_its_gang(job, r.pool.name)), None)
    if room is None:
        return None
    classed = walk.classed(job, room.pool.name)
    beyond = walk.accounts.beyond_shares(job, room.pool.name)
    return explain.endangers(job, room, classed.priority_class if classed and not beyond else "")


def gang_blocked(
    walk: Walk, gang: Gang, jobs: Sequence[Job], may_be_whole: Callable[[], bool]
) -> bool:
    """Explain why the gang waits, and let a pool drain for each member that is due. Return False.

    No pool drains for a gang that its pools and limits could never hold.
    """
    if [job for job in jobs if walk.give_up(job)]:
        return False
    drained = False
    for job in jobs:
        rooms = walk.rooms_of(job)
        walk.wake(job, rooms)
        large = [r for r in rooms if job.demand.within(r.size) and walk.within_bounds(job, r)]
        entry = entered(job, walk.yields)
        drain = pool_to_drain(job, entry, large, walk.entitled, walk.now)
        if drain and not (drained or may_be_whole()):
            drain = None
        if drain and not drain.drains_for:
            drain.drains_for, drain.drains_gang = job.name, job.group
        walk.reasons[job.name] = why = explain.gang_blocked(gang, drain)
        drained = drained or drain is not None
    if not drained:
        _in_vain(walk, jobs, why)
    return False


def _in_vain(walk: Walk, jobs: Sequence[Job], why: Reason) -> None:
    """Give the first job its reason, and count a failed attempt where attempts are counted.

    A member that would join its running gang fails no attempt.
    """
    lead, settings = jobs[0], walk.snapshot.scheduler
    walk.reasons[lead.name] = why
    joins = lead.group in walk.gangs and walk.gangs[lead.group].runs
    if settings and not joins:
        tried = [walk.waiting[job.name] for job in jobs]
        walk.decisions[lead.name] = failed_attempt(tried, settings, why, walk.now)
