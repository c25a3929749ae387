"""Step 1, settle: decisions that follow from the clock, or from the state of a gang."""

from __future__ import annotations

from collections.abc import Iterator

from slotq_core.model.snapshot import Snapshot
from slotq_core.model.users import classes_of
from slotq_core.policy.lifecycle.apply import heartbeat_missed, stalled
from slotq_core.policy.lifecycle.demotion import demoted, demotes_at
from slotq_core.policy.lifecycle.retry import backed_off, gives_up_at
from slotq_core.policy.lifecycle.stall import heartbeats_missed, silence, stalls_at
from slotq_core.policy.order import position
from slotq_core.policy.plan import Decision, Demote, EndBackoff, GiveUp, LeaveOut, Stall
from slotq_core.policy.state.groups.gangs import settled
from slotq_core.policy.state.quotas.budgets import Budgets


def settle(snapshot: Snapshot, now: int, budgets: Budgets) -> Iterator[Decision]:
    """End back-offs, break up gangs, give up starts without instances, warn of stalled attempts or
    stop them, demote, and give up claims of projects beyond their budget, in this order."""
    for job in sorted(snapshot.due, key=position):
        if backed_off(job, now):
            yield EndBackoff(job=job)
    gone: set[str] = set()
    for decision in settled(snapshot):
        if not isinstance(decision, LeaveOut):
            gone |= {job.name for job in decision.jobs}
        yield decision
    given_up = [job for at, job in gives_up_at(snapshot) if at <= now]
    for job in sorted(given_up, key=position):
        yield GiveUp(job=job)
    for stall in _stalls(snapshot, now):
        if stall.job.name not in gone:
            gone.add(stall.job.name)
            yield stall
    overdue = [job for at, job in demotes_at(snapshot) if at <= now]
    for job in sorted(overdue, key=position):
        if job.name not in gone:
            yield Demote(job=job, after=demoted(job, classes_of(snapshot.classes)))
    yield from budgets.void_claims()


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
