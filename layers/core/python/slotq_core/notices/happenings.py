"""The events of a job between two of its stored states.

Other changes produce no event: a submission, a user's own hold or cancel, an attempt that ends
without an eviction and is tried again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from slotq_core.model.attempts import Attempt, StopCause
from slotq_core.model.jobs import QUEUED_STATES, TERMINAL_STATES, Job, JobState
from slotq_core.model.notices import JobEvent
from slotq_core.model.reasons.stalled import Stalled

_MAKES_ROOM = frozenset({StopCause.EVICTED, StopCause.YIELDED, StopCause.CLOSED})
_WANTED = frozenset({"", StopCause.GOAL_REACHED.value})
"""The causes of cancels that the user wanted: by hand, or by a sweep's goal."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Happening:
    """One event of a job."""

    event: JobEvent
    job: Job
    """The job after the event."""
    attempt: Attempt | None
    """The attempt of the event; None: none."""
    why: str = ""
    """The reason, as part of a sentence; empty: the job's message has it."""


def happenings(before: Job | None, after: Job) -> Iterator[Happening]:
    """Yield the events. `before`: None for a new job; new jobs produce no notification."""
    if before is None or before.entry_time != after.entry_time:
        return
    attempt = after.attempt or before.attempt
    if (event := _event(before, after)) is not None:
        yield Happening(event=event, job=after, attempt=attempt, why=_made_room(before, event))
    elif (silence := _new_silence(before.attempt, after.attempt)) is not None:
        yield Happening(event=JobEvent.STUCK, job=after, attempt=attempt, why=silence.sentence())


def _event(before: Job, after: Job) -> JobEvent | None:
    if before.state is after.state:
        return None
    if after.state is JobState.RUNNING:
        return JobEvent.RESUMED if after.ran else JobEvent.STARTED
    if after.state is JobState.COMPLETED:
        return JobEvent.FINISHED
    if after.state in TERMINAL_STATES:
        by_user = after.state is JobState.CANCELLED and after.cause in _WANTED
        return None if by_user else JobEvent.FAILED
    if before.active and after.state in QUEUED_STATES:
        return _of_lost_slots(before, after)
    return None


def _of_lost_slots(before: Job, after: Job) -> JobEvent | None:
    if after.state is JobState.HELD:
        return JobEvent.STUCK
    stop = before.attempt.stop if before.attempt else None
    if stop is None:
        return None
    if stop.cause is StopCause.STALLED:
        return JobEvent.STUCK
    return JobEvent.EVICTED if stop.cause in _MAKES_ROOM else None


def _made_room(before: Job, event: JobEvent) -> str:
    stop = before.attempt.stop if before.attempt else None
    if event is not JobEvent.EVICTED or stop is None:
        return ""
    if stop.cause is StopCause.CLOSED:
        return f"because of the times of pool {stop.by}"
    return f"for {stop.by}" if stop.cause is StopCause.EVICTED else "at the end of its time slice"


def _new_silence(before: Attempt | None, after: Attempt | None) -> Stalled | None:
    """The silence that the queue has warned of just now, if any."""
    if after is None or after.stalled_at is None or after.silent_since is None:
        return None
    if before is not None and before.stalled_at is not None:
        return None
    return Stalled(since=after.silent_since, silent_for=after.stalled_at - after.silent_since)
