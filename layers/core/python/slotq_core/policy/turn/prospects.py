"""A quick test whether a turn can serve a job. Most turns in a long queue serve none.

The test is a bound, not a rule. If a job has no prospects, no step of its turn finds anything
(tests/property/test_prospects.py). If it has prospects, the steps may still find nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from slotq_core.model.jobs import Job
from slotq_core.policy.order import rank
from slotq_core.policy.state.groups.gangs import LiveGang
from slotq_core.policy.state.plan_state import PlanState
from slotq_core.policy.state.pool_room import PoolRoom
from slotq_core.policy.state.quotas.account import Chain
from slotq_core.policy.state.quotas.gate import givers, may_reclaim


def has_prospects(job: Job, rooms: Iterable[PoolRoom], state: PlanState) -> bool:
    """Whether a room has enough free or coming slots, allows moves, or holds a possible victim."""
    own = rank(job)
    mine: Chain = ()
    reclaims = False
    for room in rooms:
        both = room.both
        if job.demand.within(both) and room.fits_soon(job):
            return True
        if room.pool.consolidate:
            return True
        lower = room.jobs.below(own, job.project)
        if lower and job.demand.within(both + lower):
            return True
        if room.pool.time_slice is not None and job.project in room.jobs.projects():
            return True
        chain = state.accounts.of(job, room.pool.name)
        if chain is not mine:  # Most pools count in the same accounts.
            mine, reclaims = chain, may_reclaim(job, chain)
        if reclaims and givers(job, room.pool.name, room.jobs.projects(), state.accounts):
            return True
    return False


def gang_has_prospects(gang: LiveGang, state: PlanState) -> bool:
    """Whether a gang's rooms could hold enough members, with all slots that the gang may reclaim or
    with all that it may preempt."""
    representative = gang.representative
    rooms = {room.pool.name: room for job in gang.waiting for room in state.rooms_of(job)}
    giving = {
        project
        for job in {job.demand: job for job in gang.waiting}.values()
        for name, room in rooms.items()
        for project in givers(job, name, room.jobs.projects(), state.accounts)
    }
    smallest = min(job.demand.slots for job in gang.waiting)
    reclaimed = preempted = 0
    for name, room in rooms.items():
        held = (job.demand.slots for project in giving for job in room.jobs.running(project))
        lower = (
            candidate.frees(name).slots
            for candidate in room.jobs.candidates(representative.project)
            if candidate.rank < rank(representative)
        )
        reclaimed += max(0, room.both.slots + sum(held)) // max(1, smallest)
        preempted += max(0, room.both.slots + sum(lower)) // max(1, smallest)
    return not smallest or max(1, gang.needed) <= max(reclaimed, preempted)
