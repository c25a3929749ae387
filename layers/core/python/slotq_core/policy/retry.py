"""What becomes of a job when its attempt has ended (DESIGN 5.5), as a pure decision.

"Evictions, capacity errors and SageMaker's own faults requeue, with back-off where the cause was
capacity or a fault; they never count against the user's retries. Reaching the maximum runtime is
the job's own end. Anything else fails it, unless it has retries left."
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from slotq_core.lifecycle import move
from slotq_core.model import Attempt, AttemptOutcome, Job, JobState, StopCause

FIRST_BACKOFF = 30_000
LONGEST_BACKOFF = 600_000


class Ending(StrEnum):
    """How the training job ended, before the queue has asked what that means for the job."""

    COMPLETED = "completed"
    STOPPED = "stopped"
    FAILED = "failed"
    FINAL = "final"
    """The job's own end, whatever retries it has left: its maximum runtime, or a request that
    SageMaker rejects and always will."""
    NO_CAPACITY = "no_capacity"
    FAULT = "fault"


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """The job as it goes on, and the attempt as the history keeps it."""

    job: Job
    attempt: Attempt


def after_end(job: Job, ending: Ending, *, at: int, now: int, message: str = "") -> Ended:
    """Settle a job whose live attempt ended at `at`. `now` is when the queue learned of it."""
    assert job.attempt is not None
    outcome = _outcome(ending, job.attempt)
    attempt = replace(job.attempt, ended_at=at, outcome=outcome, message=message)
    return Ended(job=_onward(job, outcome, ending, now, message), attempt=attempt)


def backoff(errors: int) -> int:
    """How long to wait after so many capacity errors or faults in a row: doubling, to a limit."""
    return min(LONGEST_BACKOFF, FIRST_BACKOFF << min(errors - 1, 16))


def end_backoff(job: Job, now: int) -> Job:
    """Its time is over: it waits for slots again, at its old place."""
    state = JobState.PREEMPTED if job.evictions else JobState.PENDING
    return move(job, state, at=now, message="")


def _outcome(ending: Ending, attempt: Attempt) -> AttemptOutcome:
    """A completed job is completed even while it was being stopped; otherwise the stop decides:
    what a training script does when it is told to end says nothing about the job."""
    if ending is Ending.COMPLETED:
        return AttemptOutcome.COMPLETED
    if attempt.stop is not None:
        cancelled = attempt.stop.cause is StopCause.CANCELLED
        return AttemptOutcome.CANCELLED if cancelled else AttemptOutcome.EVICTED
    return {
        Ending.STOPPED: AttemptOutcome.STOPPED,
        Ending.FAILED: AttemptOutcome.FAILED,
        Ending.FINAL: AttemptOutcome.FAILED,
        Ending.NO_CAPACITY: AttemptOutcome.NO_CAPACITY,
        Ending.FAULT: AttemptOutcome.FAULT,
    }[ending]


def _onward(job: Job, outcome: AttemptOutcome, ending: Ending, now: int, message: str) -> Job:
    match outcome:
        case AttemptOutcome.EVICTED:
            assert job.attempt is not None and job.attempt.stop is not None
            return move(
                job, JobState.PREEMPTED, at=now, message=f"evicted for {job.attempt.stop.by}"
            )
        case AttemptOutcome.NO_CAPACITY | AttemptOutcome.FAULT:
            errors = job.capacity_errors + 1
            return move(
                job,
                JobState.BACKOFF,
                at=now,
                message=message,
                not_before=now + backoff(errors),
                capacity_errors=errors,
            )
        case AttemptOutcome.FAILED if job.retries and ending is Ending.FAILED:
            return move(job, JobState.PENDING, at=now, message=message, retries=job.retries - 1)
        case AttemptOutcome.CANCELLED:
            assert job.attempt is not None and job.attempt.stop is not None
            return move(
                job, JobState.CANCELLED, at=now, message=f"cancelled by {job.attempt.stop.by}"
            )
    return move(job, JobState(outcome.value), at=now, message=message)
