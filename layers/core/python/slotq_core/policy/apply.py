"""What a decision does to the jobs it names: pure, so that the manager's commits and the
simulator's world are the same thing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from slotq_core import names
from slotq_core.lifecycle import move
from slotq_core.model import Attempt, Job, JobState, Pool, StopCause, StopOrder
from slotq_core.policy.plan import (
    Decision,
    Demote,
    DropClaim,
    EndBackoff,
    Evict,
    GiveUp,
    Start,
    TryLater,
)
from slotq_core.policy.retry import end_backoff

Step = tuple[Job, Job]
"""A job before and after."""


def steps(decision: Decision, pools: Mapping[str, Pool], now: int) -> tuple[Step, ...]:
    """What changes, an eviction's beneficiary first."""
    match decision:
        case EndBackoff(job=job):
            return ((job, end_backoff(job, now)),)
        case GiveUp(job=job):
            return ((job, given_up(job, now)),)
        case Demote(job=job, after=after) | TryLater(job=job, after=after):
            return ((job, after),)
        case Start(job=job, pool=pool):
            return ((job, started(job, pools[pool], now)),)
        case DropClaim(job=job):
            return ((job, replace(job, claim=None)),)
        case Evict(beneficiary=job, victims=victims, claim=claim):
            owed = (job, replace(job, claim=claim))
            return (owed, *((victim, evicted(victim, job, now)) for victim in victims))


def pools_touched(decision: Decision) -> tuple[str, ...]:
    """The pools whose state the decision rests on: its commit is conditioned on their ledgers."""
    match decision:
        case EndBackoff() | GiveUp() | Demote() | TryLater():
            return ()
        case Start(pool=pool):
            return (pool,)
        case DropClaim(job=job):
            return (job.claim.pool,) if job.claim else ()
        case Evict(claim=claim):
            return (claim.pool,)


def started(job: Job, pool: Pool, now: int) -> Job:
    """The job with its slots, and the durable intent to create its next training job."""
    number = job.attempts + 1
    attempt = Attempt(
        number=number,
        training_job=names.training_job_name(job.name, number),
        token=names.token(job.name, job.entry_time, number),
        pool=pool.name,
        instance_type=pool.instance_type,
        admitted_at=now,
    )
    return move(
        job,
        JobState.STARTING,
        at=now,
        attempts=number,
        attempt=attempt,
        schedule_attempts=0,
        message="",
    )


def evicted(victim: Job, beneficiary: Job, now: int) -> Job:
    """The victim with the durable intent to stop it. It holds its slots until it has ended."""
    order = StopOrder(cause=StopCause.EVICTED, by=beneficiary.name, at=now)
    message = f"evicted for {beneficiary.name}"
    return replace(_stopping(victim, order, message), evictions=victim.evictions + 1)


def given_up(job: Job, now: int) -> Job:
    """The start that got no instances, with the durable intent to stop it."""
    assert job.attempt is not None
    order = StopOrder(cause=StopCause.NO_CAPACITY, by=job.attempt.pool, at=now)
    return _stopping(job, order, f"pool {job.attempt.pool} had no instances for it in time")


def cancelled(job: Job, by: str, now: int) -> Job:
    """The user's word, whatever was about to happen. A job that holds slots is stopped first."""
    message = f"cancelled by {by}"
    if job.attempt is None:
        return move(job, JobState.CANCELLED, at=now, message=message)
    sent = job.attempt.stop is not None and job.attempt.stop.sent
    order = StopOrder(cause=StopCause.CANCELLED, by=by, at=now, sent=sent)
    return _stopping(job, order, message)


def _stopping(job: Job, order: StopOrder, message: str) -> Job:
    assert job.attempt is not None
    attempt = replace(job.attempt, stop=order)
    return move(job, JobState.STOPPING, at=order.at, attempt=attempt, message=message)
