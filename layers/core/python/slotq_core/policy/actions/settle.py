"""Step 1, settle: decisions that follow from the clock, or from the state of a gang."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from itertools import chain

from slotq_core.model.snapshot import Snapshot
from slotq_core.model.users import classes_of
from slotq_core.policy.lifecycle.apply import heartbeat_missed, stalled
from slotq_core.policy.lifecycle.demotion import demoted, demotes_at
from slotq_core.policy.lifecycle.retry import backed_off, gives_up_at
from slotq_core.policy.lifecycle.stall import heartbeats_missed, silence, stalls_at
from slotq_core.policy.order import position
from slotq_core.policy.plan import (
    Close,
    Decision,
    Demote,
    DropClaim,
    EndBackoff,
    GiveUp,
    LeaveOut,
    Stall,
    jobs_in,
)
from slotq_core.policy.state.groups.gangs import settled
from slotq_core.policy.state.quotas.budgets import Budgets


def settle(snapshot: Snapshot, now: int, budgets: Budgets) -> Iterator[Decision]:
    """End back-offs, break up gangs, stop jobs of pools that close, give up starts without
    instances, warn of stalled attempts or stop them, demote, and give up claims of projects beyond
    their budget, in this order."""
    for job in sorted(snapshot.due, key=position):
        if backed_off(job, now):
            yield EndBackoff(job=job)
    gone: set[str] = set()
    for decision in chain(settled(snapshot), _closings(snapshot, now, gone)):
        if not isinstance(decision, LeaveOut):
            gone.update(job.name for job in jobs_in(decision))
        yield decision
    for timed in _timed(snapshot, now):
        if timed.job.name not in gone:
            if isinstance(timed, Stall):
                gone.add(timed.job.name)
            yield timed
    yield from (drop for drop in budgets.void_claims() if drop.job.name not in gone)


def _timed(snapshot: Snapshot, now: int) -> Iterator[GiveUp | Stall | Demote]:
    given_up = [job for at, job in gives_up_at(snapshot) if at <= now]
    for job in sorted(given_up, key=position):
        yield GiveUp(job=job)
    yield from _stalls(snapshot, now)
    overdue = [job for at, job in demotes_at(snapshot) if at <= now]
    for job in sorted(overdue, key=position):
        yield Demote(job=job, after=demoted(job, classes_of(snapshot.classes)))


def _closings(snapshot: Snapshot, now: int, gone: AbstractSet[str]) -> Iterator[Close | DropClaim]:
    """What follows from the hours and reservations of pools, besides the jobs that stop already
    (`gone`)."""
    if not any(pool.schedule or pool.reservations for pool in snapshot.pools):
        return  # Most queues have neither, and no cold start should pay for them.
    from slotq_core.policy.lifecycle.hours.closing import closings

    yield from closings(snapshot, now, gone)


def _stalls(snapshot: Snapshot, now: int) -> Iterator[Stall]:
    """Stops of members that have missed their heartbeat, then stalls by the pools' settings."""
    for job in sorted(heartbeats_missed(snapshot), key=position):
        why = silence(job, now)
        yield Stall(job=job, after=heartbeat_missed(job, why, now), why=why)
    pools = {pool.name: pool for pool in snapshot.pools}
    for job in sorted((job for at, job in stalls_at(snapshot) if at <= now), key=position):
        assert job.attempt is not None
        why = silence(job, now)
        yield Stall(job=job, after=stalled(job, why, pools[job.attempt.pool], now), why=why)
