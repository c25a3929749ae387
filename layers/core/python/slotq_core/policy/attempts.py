"""Attempts to start a job, counted: NVIDIA FLARE's scheduler settings (DESIGN 5.4).

"`max_schedule_count`, `min/max_schedule_interval` with doubling: between attempts the job is in
`backoff`, freed capacity does not shorten it, a job with slots coming free has not failed its
attempt. Default: no such settings, never give up. Giving up is `failed`, reason `cannot_schedule`."

An attempt begins when the job's turn comes and lasts while anything is promised to it: slots that
are coming free, a claim, a pool that drains for it. It has failed when the job is blocked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from slotq_core.lifecycle import move
from slotq_core.model import Job, JobState, SchedulerSettings, Snapshot
from slotq_core.policy.lines import Line, heads_needed
from slotq_core.policy.order import position
from slotq_core.policy.plan import TryLater
from slotq_core.reasons import Reason

NOT_SCHEDULED = "not_scheduled"
"""`Job.cause` between two attempts."""

CANNOT_SCHEDULE = "cannot_schedule"
"""`Job.cause` of a job that was given up."""


def interval(settings: SchedulerSettings, attempts: int) -> int:
    """How long after so many attempts the next one comes (ms).

    "Before attempt k+1: min(max_interval, min_interval·2^(k−1))."
    """
    doubled = settings.min_schedule_interval << min(attempts - 1, 40)
    return min(settings.max_schedule_interval, doubled)


def tried_in_vain(job: Job, settings: SchedulerSettings, why: Reason, now: int) -> Job:
    """The job after an attempt that failed: it waits for the next, or has had its last."""
    attempts = job.schedule_attempts + 1
    said = f"attempt {attempts} of {settings.max_schedule_count} to start it: {why.sentence()}"
    if attempts >= settings.max_schedule_count:
        return move(
            job,
            JobState.FAILED,
            at=now,
            cause=CANNOT_SCHEDULE,
            message=f"given up after {said}",
            schedule_attempts=attempts,
        )
    return move(
        job,
        JobState.BACKOFF,
        at=now,
        cause=NOT_SCHEDULED,
        message=said,
        not_before=now + interval(settings, attempts),
        schedule_attempts=attempts,
    )


def failed_alike(tried: Iterable[TryLater], snapshot: Snapshot, now: int) -> Iterator[TryLater]:
    """The attempts of those behind a blocked job in its line: blocked alike, they have failed too.

    Of each line only as many as a plan from the heads of the lines is sure to see, for that plan is
    to be the same as this one; the rest are the heads of the next plan, at the same moment.
    """
    blocked = {Line.of(each.job): each for each in tried}
    if not blocked or snapshot.scheduler is None:
        return
    lines: dict[Line, list[Job]] = {}
    for job in sorted(snapshot.waiting, key=position):
        lines.setdefault(Line.of(job), []).append(job)
    claimants = [job for job in snapshot.waiting if job.claim]
    needed = heads_needed((line.key for line in lines), snapshot.pools, snapshot.active, claimants)
    for line, first in blocked.items():
        for job in lines[line][: needed[line.key]]:
            if not job.claim and position(job) > position(first.job):
                after = tried_in_vain(job, snapshot.scheduler, first.why, now)
                yield TryLater(job=job, after=after, why=first.why)
