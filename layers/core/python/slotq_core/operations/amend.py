"""What a user changes about a job that is kept: hold it, release it, give its attempt up, give it
other settings.

Pure: the manager commits what comes out, conditioned on the job as it was read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from slotq_core.errors import InvalidRequest, TooLate
from slotq_core.lifecycle import move
from slotq_core.model.attempts import StopCause
from slotq_core.model.jobs import Job, JobState, Submission
from slotq_core.policy.lifecycle.apply import requeued
from slotq_core.policy.lifecycle.demotion import come_into
from slotq_core.policy.state.priority_classes import Classes
from slotq_core.ports import Request

_SETTINGS: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (("priority", "priority_class"), ("priority", "priority_class", "admitted_class", "auto")),
    (("pools",), ("pools",)),
    (("preemptible",), ("preemptible",)),
    (("min_runtime",), ("min_runtime",)),
    (("retries",), ("retries",)),
)
"""What can be changed while a job lives: fields of its submission, and what they decide of the job.
What a running attempt was promised (its pool) stays until the next."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Revision:
    """A request with other tags."""

    request: Request
    before: Submission
    """What was asked for."""
    after: Submission
    """What is asked for now."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Amendment:
    """What a user wants to be different."""

    held: bool | None = None
    """True: it shall not start; False: it may again; None: as it is."""
    revise: Callable[[Request], Revision] | None = None
    """The request as it shall be, from the request as it is; None: no change. May raise
    InvalidRequest."""
    give_up: int | None = None
    """The number of the attempt that it shall give up; None: it keeps what it has."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Wish:
    """What shall become of the job of that name."""

    name: str
    amendment: Amendment | None
    """None: it is cancelled."""
    states: frozenset[JobState] = frozenset(JobState)
    """Only while it is in one of these."""

    @property
    def stops(self) -> bool:
        """Its attempt is stopped, where it has one."""
        return self.amendment is None or self.amendment.give_up is not None


@dataclass(frozen=True, kw_only=True, slots=True)
class Changed:
    """A job as a wish has left it."""

    job: Job
    anew: bool
    """Something was written; else it was so already."""


def alive(job: Job) -> Job:
    """The job itself. Raises TooLate if it has ended."""
    if job.terminal:
        raise TooLate(f"job {job.name} has ended already: it is {job.state}", field="name")
    return job


def settled(job: Job, revision: Revision, admitted: Job, classes: Classes) -> Job:
    """The job with the settings that the revision changes, as it would be admitted with now. What
    has come of the others since (a class that was demoted, retries that were used) stays, and so
    does its running time: a class that it comes into anew may have ended for it. It keeps its entry
    time; a claim in a pool that it no longer accepts is given up."""
    changed = {
        name: getattr(admitted, name)
        for asked, decided in _SETTINGS
        if any(getattr(revision.before, f) != getattr(revision.after, f) for f in asked)
        for name in decided
    }
    after: Job = replace(job, **changed)
    if "priority_class" in changed:
        after = come_into(after, classes)
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


def without_attempt(job: Job, *, number: int, by: str, now: int) -> Job:
    """The job with its attempt of that number given up: it is stopped, and the job waits again.

    Nothing changes where that attempt is over or is being stopped for another job already, so that
    the same wish twice gives up one attempt. Raises TooLate where it is being cancelled,
    InvalidRequest for an attempt that there never was.
    """
    if number > job.attempts:
        raise InvalidRequest(
            f"job {job.name} has begun {job.attempts} attempts, and none of number {number}",
            field="give_up",
        )
    if job.attempt is None or job.attempt.number != number:
        return job
    stop = job.attempt.stop
    if stop is None:
        return requeued(job, by, now)
    if stop.cause is StopCause.CANCELLED:
        raise TooLate(f"job {job.name} is being cancelled, by {stop.by}", field="give_up")
    return job
