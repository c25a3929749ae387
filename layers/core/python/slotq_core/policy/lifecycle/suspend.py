"""Suspends: the grace that a job gets before it is stopped, and releases.

*Direct* (default): StopTrainingJob at once. *Asked* (pool `suspend_grace` > 0): a marker object
first; the queue calls StopTrainingJob when the script has released or the grace is over.

Only evicted and yielding jobs, and those of a pool that closes, get a grace, if they run and save
checkpoints; over several pools, the longest of theirs.

Releasing: the job waits again at its place, no retry used. More than a few releases within an hour
hold the job. Those that the queue asked for do not count.

See docs/policy-decisions.md#asked-suspends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from slotq_core.lifecycle import move
from slotq_core.model.attempts import StopCause
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.pools import Pool

MOST_RELEASES = 3
"""Releases without being asked, within `RELEASES_WITHIN`, after which a job still waits again."""

RELEASES_WITHIN = 3_600_000
"""For how long a release counts (ms)."""

RELEASED = "released"
"""`Job.cause` of a job that released its slots without being asked."""

RELEASED_TOO_OFTEN = "released_too_often"
"""`Job.cause` of a job that is held for its releases."""

BY_ITS_SCRIPT = "its script released the slots"
"""The message of such an end. SageMaker's own calls it an error."""

_ASKED = frozenset({StopCause.EVICTED, StopCause.YIELDED, StopCause.CLOSED})


def grace(job: Job, pools: Mapping[str, Pool]) -> int:
    """The grace (ms) of a job that has a stop order; 0: stop at once."""
    attempt = job.attempt
    if attempt is None or attempt.stop is None or attempt.running_since is None:
        return 0
    if attempt.stop.cause not in _ASKED or not job.checkpoints:
        return 0
    names = [pool for pool, _ in job.parts] or [attempt.pool]
    return max((pools[name].suspend_grace for name in names if name in pools), default=0)


def with_grace(before: Job, after: Job, pools: Mapping[str, Pool]) -> Job:
    """The job whose new stop order, if it has one, knows the end of its grace."""
    attempt = after.attempt
    if attempt is None or attempt.stop is None or (before.attempt and before.attempt.stop):
        return after
    if not (granted := grace(after, pools)):
        return after
    order = replace(attempt.stop, grace_until=attempt.stop.at + granted)
    return replace(after, attempt=replace(attempt, stop=order))


def grace_ends(job: Job) -> int | None:
    """When the grace of a job's stop order ends (ms), also in the past. None: there is no grace, or
    the queue has already asked SageMaker to stop the job."""
    stop = job.attempt.stop if job.attempt else None
    return None if stop is None or stop.sent else stop.grace_until


def graces_end(active: Iterable[Job], now: int) -> Iterator[int]:
    """The ends (ms) of the graces that are not over yet."""
    ends = [grace_ends(job) for job in active if job.attempt and job.attempt.stop]
    yield from (end for end in ends if end is not None and end > now)


def after_release(job: Job, now: int) -> Job:
    """The job after its attempt released its slots without being asked: it waits again, or is held
    after too many releases. One that was being stopped does not count."""
    if job.attempt is not None and job.attempt.stop is not None:
        return move(job, JobState.PREEMPTED, at=now, cause=RELEASED)
    recent = (*(at for at in job.releases if now - RELEASES_WITHIN < at <= now), now)
    if len(recent) <= MOST_RELEASES:
        return move(
            job, JobState.PREEMPTED, at=now, cause=RELEASED, message=BY_ITS_SCRIPT, releases=recent
        )
    message = (
        f"its script released the slots {len(recent)} times within an hour without being asked; "
        f"mend it, then release the job: slotq release {job.name}"
    )
    return move(job, JobState.HELD, at=now, cause=RELEASED_TOO_OFTEN, message=message, releases=())
