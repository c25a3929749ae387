"""Ends: how long an ended job stays readable, the usage record of an ended attempt, and the ends of
a gang's members."""

from __future__ import annotations

from dataclasses import dataclass

from slotq_core.model.groups import StoredGroup
from slotq_core.model.jobs import Job, JobState
from slotq_core.ports.stored import Change
from slotq_core.timestamps import iso
from slotq_core.usage.attempt_use import AttemptUse, use_of
from slotq_core.usage.calendar_days import DAY, day_of

HISTORY = 30 * DAY
"""Default time (ms) for which an ended job's records are kept."""

LEAST_KEPT = 7 * DAY
"""The least time (ms) for which a record is kept, however short the history is: until its day is
summed up, even if the ticks have failed for days."""


def expires_at(job: Job, history: int) -> int | None:
    """Return when the job's records may be removed, in whole SECONDS since the epoch, as DynamoDB's
    time to live requires. None: never, because the job has not ended."""
    if not job.terminal:
        return None
    return -((job.changed_at + history) // -1000)


@dataclass(frozen=True, kw_only=True, slots=True)
class EndedRecord:
    """The record that a change makes."""

    day: str
    """The day on which the end was recorded. SageMaker may have ended the training job before."""
    position: str
    """Unique, in the order of recording."""
    use: AttemptUse
    expires_at: int
    """When the record may be removed, in whole SECONDS since the epoch."""


def record_of(change: Change, history: int) -> EndedRecord | None:
    """The record for a change that ends an attempt; None for any other change. `history`: how long
    ended jobs are kept (ms)."""
    if change.ended is None:
        return None
    return ended_record(use_of(change.before, change.ended), change.after.changed_at, history)


def ended_record(
    use: AttemptUse, recorded_at: int, history: int, *, suffix: str = ""
) -> EndedRecord:
    """The record of this use. `suffix` distinguishes several of one attempt."""
    return EndedRecord(
        day=day_of(recorded_at),
        position=f"{iso(recorded_at)}#{use.job}#{use.number:04d}{suffix}",
        use=use,
        expires_at=-((recorded_at + max(history, LEAST_KEPT)) // -1000),
    )


def end_of(job: Job | None, stored: StoredGroup, *, now: int, history: int) -> JobState | None:
    """Return the end state of a member; None if it has not ended. `job`: the job of that name, if
    any. `history`: how long ended jobs stay readable (ms).

    A member without a record has ended long ago, in an unknown state. It counts as cancelled, so
    that no job waits for it. In a young group, it has not been submitted yet.
    """
    if job is not None and job.group == stored.group.name:
        return job.state if job.terminal else None
    return JobState.CANCELLED if now - stored.at >= history else None
