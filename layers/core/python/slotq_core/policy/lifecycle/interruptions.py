"""Interruptions of a running attempt: SageMaker takes its spot instances back, and the training job
goes on with others.

The attempt keeps its slots. The time until it runs again is no running time: for demotion, time
slices, silence and use it is as if the attempt had begun so much later.
"""

from __future__ import annotations

from slotq_core.lifecycle import copied
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.pools import CapacityKind

SECOND = 1_000
"""How exact (ms) SageMaker counts the training time."""

INTERRUPTED = "SageMaker has interrupted it, and goes on with it when there are instances again"


def interrupted(job: Job, at: int) -> Job | None:
    """The running job after an interruption at `at` (ms); None if that is no news."""
    attempt = job.attempt
    if job.state is not JobState.RUNNING or attempt is None or attempt.running_since is None:
        return None
    if at <= (attempt.resumed_at or attempt.running_since):
        return None
    waits = copied(
        attempt,
        running_since=None,
        interrupted_since=at,
        ran_before=at - attempt.running_since,
        interruptions=attempt.interruptions + 1,
        silent_since=None,
        stalled_at=None,
    )
    return copied(job, attempt=waits, message=INTERRUPTED)


def resumed(job: Job, at: int) -> Job | None:
    """The job after its attempt runs again from `at` (ms) on; None if that is no news."""
    attempt = job.attempt
    if attempt is None or attempt.interrupted_since is None or at <= attempt.interrupted_since:
        return None
    runs = copied(
        attempt,
        running_since=at - attempt.ran_before,
        resumed_at=at,
        interrupted_since=None,
        interrupted_for=attempt.interrupted_for + at - attempt.interrupted_since,
        ran_before=0,
    )
    return copied(job, attempt=runs, message="" if job.message == INTERRUPTED else job.message)


def at_its_end(job: Job, at: int) -> Job:
    """The job whose attempt ends at `at` (ms): an interrupted one has run until it was
    interrupted."""
    attempt = job.attempt
    if attempt is None or attempt.interrupted_since is None:
        return job
    gap = max(0, at - attempt.interrupted_since)
    ran = copied(
        attempt,
        running_since=attempt.interrupted_since - attempt.ran_before + gap,
        resumed_at=at,
        interrupted_since=None,
        interrupted_for=attempt.interrupted_for + gap,
        ran_before=0,
    )
    return copied(job, attempt=ran)


def with_unseen(job: Job, trained: int | None, at: int, *, by_itself: bool) -> Job:
    """The job whose attempt ends at `at` (ms), with the interruptions and returns that no news has
    told of. `trained`: how long it ran by SageMaker's count (ms, whole seconds; None: not known).
    `by_itself`: its script has ended, so it had instances then."""
    attempt = job.attempt
    if attempt is None or attempt.capacity_kind is not CapacityKind.SPOT or trained is None:
        return job
    since, is_away = attempt.running_since, attempt.interrupted_since is not None
    if attempt.interrupted_since is not None:
        since = attempt.interrupted_since - attempt.ran_before
    if since is None:
        return job
    first = since - attempt.interrupted_for
    ran = attempt.ran_before if is_away else at - since
    has_returned = is_away and by_itself
    if ran - trained < SECOND and not has_returned:
        return job
    ran = min(trained, at - first)
    known = copied(
        attempt,
        running_since=at - ran,
        interrupted_since=None,
        ran_before=0,
        interrupted_for=at - first - ran,
        interruptions=attempt.interruptions if is_away else attempt.interruptions + 1,
    )
    return copied(job, attempt=known)
