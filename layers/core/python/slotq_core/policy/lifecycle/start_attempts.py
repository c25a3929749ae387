"""Limits on attempts to start a job: NVIDIA FLARE's scheduler settings.

`max_schedule_count`, `min/max_schedule_interval` with doubling: between attempts the job is in
`backoff`, freed capacity does not shorten it, a job with slots coming free has not failed its
attempt. Default: no such settings, never give up. Giving up is `failed`, reason `cannot_schedule`.

An attempt begins at the job's turn and lasts while something is promised to the job: slots coming
free, a claim, or a pool that drains for it. The attempt fails when the job is blocked.

See docs/policy-decisions.md#attempts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from slotq_core.lifecycle import move
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.reasons import Reason
from slotq_core.model.sharing import SchedulerSettings
from slotq_core.policy.plan import TryLater

NOT_SCHEDULED = "not_scheduled"
"""`Job.cause` between two attempts."""

CANNOT_SCHEDULE = "cannot_schedule"
"""`Job.cause` of a job after its last failed attempt."""


SHORTEST = 1_000
"""Shorter intervals (ms) count as this one, so that a settled queue makes few passes."""


def interval(settings: SchedulerSettings, attempts: int) -> int:
    """The back-off (ms) between failed attempt number `attempts` and the next: "before attempt k+1:
    min(max_interval, min_interval·2^(k−1))"."""
    doubled = max(SHORTEST, settings.min_schedule_interval) << min(attempts - 1, 40)
    return min(max(SHORTEST, settings.max_schedule_interval), doubled)


def lasts(settings: SchedulerSettings) -> int:
    """The time (ms) from a job's first attempt to its last one, if all of them fail."""
    assert settings.max_schedule_count is not None, "attempts are not counted"
    between, doubled = settings.max_schedule_count - 1, 40
    growing = sum(interval(settings, k) for k in range(1, 1 + min(between, doubled)))
    return growing + max(0, between - doubled) * interval(settings, doubled)


def failed_attempt(
    jobs: Sequence[Job], settings: SchedulerSettings, why: Reason, now: int
) -> TryLater:
    """Record a failed attempt of one job, or of a gang's members: "a group counts as one"."""
    assert settings.max_schedule_count is not None, "attempts are not counted"
    attempts = 1 + max(job.schedule_attempts for job in jobs)
    said = f"attempt {attempts} of {settings.max_schedule_count} to start it: {why.text()}"
    changes: dict[str, Any] = {"cause": NOT_SCHEDULED, "message": said}
    state = JobState.BACKOFF
    if attempts >= settings.max_schedule_count:
        state = JobState.FAILED
        changes = {"cause": CANNOT_SCHEDULE, "message": f"given up after {said}"}
    else:
        changes["not_before"] = now + interval(settings, attempts)
    changes["schedule_attempts"] = attempts
    return TryLater(
        changed=tuple((job, move(job, state, at=now, **changes)) for job in jobs), why=why
    )
