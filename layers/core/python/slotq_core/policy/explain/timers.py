"""Times at which the clock alone may change something."""

from __future__ import annotations

from slotq_core.model.jobs import Job
from slotq_core.model.projects import HOUR
from slotq_core.model.reasons.outlook import TimeCause
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.actions.reserve import due_at
from slotq_core.policy.actions.time_slice import TimeSlices
from slotq_core.policy.explain.waiting import protection_ends
from slotq_core.policy.lifecycle.demotion import demotes_at
from slotq_core.policy.lifecycle.missing_rights import no_eviction_until
from slotq_core.policy.lifecycle.retry import gives_up_at
from slotq_core.policy.lifecycle.stall import stalls_at
from slotq_core.policy.lifecycle.suspend import graces_end
from slotq_core.policy.lifecycle.warm_slots import kept_until
from slotq_core.policy.state.pool_room import PoolRoom
from slotq_core.policy.state.quotas.budgets import Budgets


def first_timer(snapshot: Snapshot, now: int, budgets: Budgets) -> int | None:
    """When (ms) the next back-off, start time-out, stall, demotion, end of a grace, change of a
    pool's size, reservation, turn of a budget or hour of past use is due; None: nothing is due."""
    timers = [job.not_before for job in snapshot.due if job.not_before is not None]
    timers += [
        at for at, _ in (*gives_up_at(snapshot), *stalls_at(snapshot), *demotes_at(snapshot))
    ]
    timers += graces_end(snapshot.active, now)
    timers += budgets.timers()
    if snapshot.fair_share and snapshot.waiting and snapshot.active:
        timers.append(now - now % HOUR + HOUR)  # Past use is added up again.
    if snapshot.nodes:
        from slotq_core.policy.state.nodes.node_ends import nodes_end

        timers += nodes_end(snapshot, now)
    if any(pool.schedule or pool.reservations for pool in snapshot.pools):
        from slotq_core.policy.lifecycle.hours.closing import closing_times

        timers += closing_times(snapshot, now)
    if snapshot.warm:
        timers += kept_until(snapshot, now)
    for pool in snapshot.pools:
        for failed in pool.health.failed_nodes:
            if failed.not_before > now:
                timers.append(failed.not_before)
    return min(timers, default=None)


def known_times(
    job: Job, entry: int, room: PoolRoom, slices: TimeSlices
) -> list[tuple[TimeCause, int | None]]:
    """Times (ms), some of them past, that matter to a job that waits for the pool; None: never.
    `entry`: when (ms) the job counts as having entered."""
    times = [*room.times, (TimeCause.RESERVE_AFTER, due_at(entry, room))]
    if room.rights:
        times.append((TimeCause.RIGHTS, room.rights.tried_again(job)))
    if room.pool.name in job.refused_in:
        times.append((TimeCause.OTHER_QUOTA, no_eviction_until(job)))
    if room.jobs.protections:
        times.append((TimeCause.MIN_RUNTIME, protection_ends(job, room)))
    if room.pool.time_slice is not None:
        times += [(TimeCause.TIME_SLICE, end) for _, end in slices.ends_to_come(job, room)]
    return times
