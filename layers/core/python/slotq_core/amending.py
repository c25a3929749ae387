"""What a user changes about a job that is kept: hold it, release it, give it other settings.

Pure: the manager commits what comes out, conditioned on the job as it was read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from slotq_core.errors import TooLate
from slotq_core.lifecycle import move
from slotq_core.model import Job, JobState, Submission
from slotq_core.ports import Request

SETTINGS = ("priority", "pools", "preemptible", "min_runtime", "retries")
"""What of a job is set by its submission's tags. Each can be changed while the job lives; what a
running attempt was promised (its pool) stays until the next."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Amendment:
    """What a user wants to be different."""

    held: bool | None = None
    """True: it shall not start; False: it may again; None: as it is."""
    revise: Callable[[Request], tuple[Submission, Request]] | None = None
    """The request as it shall be, and what it asks for, from the request as it is; None: no change.
    May raise InvalidRequest."""


def alive(job: Job) -> Job:
    """The job itself. Raises TooLate if it has ended."""
    if job.terminal:
        raise TooLate(f"job {job.name} has ended already: it is {job.state}", field="name")
    return job


def settled(job: Job, admitted: Job) -> Job:
    """The job with the settings of a submission as it would be admitted now. It keeps its place's
    entry time; a claim in a pool that it no longer accepts is given up."""
    after = replace(job, **{name: getattr(admitted, name) for name in SETTINGS})
    if after.claim and after.claim.pool not in after.pools:
        after = replace(after, claim=None)
    return after


def with_hold(job: Job, *, held: bool, by: str, now: int) -> Job:
    """Raises TooLate where it holds slots: a job is held before it starts or after it was evicted.

    Holding a held job, and releasing one that is not held, change nothing.
    """
    if held == (job.state is JobState.HELD):
        return job
    if not held:
        state = JobState.PREEMPTED if job.evictions else JobState.PENDING
        return move(job, state, at=now, message=f"released by {by}")
    if job.active:
        raise TooLate(
            f"job {job.name} is {job.state}; only a job that waits can be held. Cancel it, or "
            "lower its priority so that others evict it",
            field="held",
        )
    return move(job, JobState.HELD, at=now, message=f"held by {by}")
