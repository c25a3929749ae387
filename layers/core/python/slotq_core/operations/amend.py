"""User changes to a stored job: hold, release, give up the attempt, change settings.

Pure functions: the manager commits the result, conditioned on the job as it was read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from slotq_core.admission.checkpoints import notice
from slotq_core.errors import InvalidRequest, TooLate
from slotq_core.lifecycle import move
from slotq_core.model.attempts import StopCause
from slotq_core.model.jobs import SETTINGS, Job, JobState, Submission
from slotq_core.model.users import Classes
from slotq_core.names import (
    AFTER_ANY_TAG,
    AFTER_TAG,
    DEMAND_TAG,
    without_provided_checkpoints,
)
from slotq_core.policy.lifecycle.apply import requeued
from slotq_core.policy.lifecycle.demotion import come_into
from slotq_core.ports.stored import Change
from slotq_core.ports.training import Request
from slotq_core.wire.training.instance_types import NAMES

_SETTINGS: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (
        ("priority", "priority_class", "default_priority"),
        ("priority", "priority_class", "admitted_class", "auto"),
    ),
    (("pools",), ("pools",)),
    *(((name,), (name,)) for name in SETTINGS if name != "gpus"),
)
"""The settings that can change during a job's life: fields of the submission, and the job fields
that each decides. A running attempt keeps its pool until the next attempt."""
_ON_NODES = ("gpus", "tenant", "whole_because", "longest_attempt", "runtime_bound")
"""What admission decides of a job that asks for GPUs of a node, or whose pools have hours."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Revision:
    """A request with changed tags."""

    request: Request
    before: Submission
    """The submission before the change."""
    after: Submission
    """The submission after the change."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Amendment:
    """The changes that a user wants."""

    held: bool | None = None
    """True: hold the job; False: release the job; None: no change."""
    revise: Callable[[Request], Revision] | None = None
    """Returns the changed request for the current request; None: no change. May raise
    InvalidRequest."""
    give_up: int | None = None
    """Number of the attempt to give up; None: keep the attempt."""
    project: str | None = None
    """The project to move the job to; None: the job stays in its project."""
    # The others are the keys of a change, by their names (`wire.job_changes.AmendmentBody`).


@dataclass(frozen=True, kw_only=True, slots=True)
class Retry:
    """Submit an ended job's request again, as another job."""

    renamed: Callable[[Request, str], tuple[Submission, Request]]
    """Returns the new submission and its request for the old request and the new name. May raise
    InvalidRequest."""
    new_name: str | None = None
    """The new job's name; None: the next free name."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangeRequest:
    """One requested change of one job."""

    name: str
    amendment: Amendment | None
    """None: cancel the job, or retry it."""
    retry: Retry | None = None
    """Leave the job as it is and submit its request again."""
    states: frozenset[JobState] = frozenset(JobState)
    """Apply the change only in these states."""

    @property
    def is_counted(self) -> bool:
        """Whether the change counts like a submission, and is therefore committed alone."""
        moves = self.amendment is not None and self.amendment.project is not None
        return moves or self.retry is not None

    @property
    def stops(self) -> bool:
        """Whether the change stops the job's attempt, if there is one."""
        if self.retry is not None:
            return False
        return self.amendment is None or self.amendment.give_up is not None

    def check_state(self, job: Job) -> None:
        """Raises TooLate if the job is no longer in one of the wanted states."""
        if job.state not in self.states:
            wanted = " or ".join(sorted(self.states))
            raise TooLate(f"job {job.name} is now {job.state}, not {wanted}", field="states")


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangedJob:
    """A job after a requested change."""

    job: Job
    written: bool
    """True if something was written; False if the job was already so."""
    notices: tuple[str, ...] = ()
    """Notices for the user about the change, as sentences."""


def notices_of(change: Change) -> tuple[str, ...]:
    """Return the notices for the user about a change, as sentences."""
    newly_provided, request = (
        change.after.checkpoints and not change.before.checkpoints,
        change.request,
    )
    if not newly_provided or request is None or without_provided_checkpoints(request) is request:
        return ()
    return (notice(request),)


def alive(job: Job) -> Job:
    """Return the job. Raises TooLate if the job has ended."""
    if job.terminal:
        raise TooLate(f"job {job.name} has already ended: it is {job.state}", field="name")
    return job


def settled(job: Job, revision: Revision, admitted: Job, classes: Classes, *, by: str) -> Job:
    """Return the job with the revision's changed settings, as the job would be admitted now.

    All other settings keep their current values, for example a demoted class or used retries. The
    running time stays too, so a new class's time may already be used up. The job keeps its entry
    time. A claim in a pool that the job no longer accepts is given up. Raises InvalidRequest if the
    revision changes the demand or the dependencies, and TooLate if it changes the class or the GPUs
    of a job that holds slots.
    """
    _check_kept(job, revision, admitted)
    changed = {
        name: getattr(admitted, name)
        for asked, decided in _SETTINGS
        if any(getattr(revision.before, f) != getattr(revision.after, f) for f in asked)
        for name in decided
    }
    elsewhere = _goes_elsewhere(job, revision, admitted)
    if (elsewhere or _asks_otherwise(revision)) and not job.active:
        changed |= {name: getattr(admitted, name) for name in _ON_NODES}
    if elsewhere and not job.active:
        changed |= {"warm_key": admitted.warm_key, "keep_alive": admitted.keep_alive}
    after: Job = replace(job, **changed)
    if "priority_class" in changed:
        after = come_into(after, classes)
    if admitted.project != job.project:
        after = _moved(after, revision, admitted, by)
    if after.claim and (after.claim.pool not in after.pools or _lost_node(job, after)):
        after = replace(after, claim=None)
    return replace(
        after,
        refused_in=tuple(pool for pool in after.refused_in if pool in after.pools),
        denied_in=tuple(pool for pool in after.denied_in if pool in after.pools),
    )


def _check_kept(job: Job, revision: Revision, admitted: Job) -> None:
    """Check that the revision changes nothing that stays as submitted. Raises InvalidRequest and
    TooLate."""
    if revision.before.demand != revision.after.demand:
        raise InvalidRequest(
            f"the tag '{DEMAND_TAG}' stays as submitted; cancel job {job.name} and submit it with "
            "another demand",
            field="Tags",
        )
    if [pool for pool, _ in admitted.parts] != [pool for pool, _ in job.parts]:
        raise InvalidRequest(
            f"job {job.name} runs in several pools at once, and these stay as submitted; cancel it "
            "and submit it with other pools",
            field="Tags",
        )
    lost = [name for name in NAMES if job.demand[name] and not admitted.demand[name]]
    if _goes_elsewhere(job, revision, admitted) and lost:
        raise InvalidRequest(
            f"job {job.name} takes {' and '.join(lost)} from its pools, and not all of the new "
            "pools count them; cancel it and submit it with these pools",
            field="Tags",
        )
    if _dependencies(revision.before) != _dependencies(revision.after):
        raise InvalidRequest(
            f"the tags '{AFTER_TAG}' and '{AFTER_ANY_TAG}' stay as submitted; cancel job "
            f"{job.name} and submit it after other jobs",
            field="Tags",
        )
    if revision.before.workload != revision.after.workload and job.active:
        raise TooLate(
            f"job {job.name} is {job.state}; only a waiting job can change its class",
            field="tags",
        )
    if _asks_otherwise(revision) and job.active:
        raise TooLate(
            f"job {job.name} is {job.state}; only a waiting job can ask for other GPUs",
            field="tags",
        )


def _goes_elsewhere(job: Job, revision: Revision, admitted: Job) -> bool:
    return (revision.before.pools, job.project) != (revision.after.pools, admitted.project)


def _lost_node(before: Job, after: Job) -> bool:
    """Whether the claim is to a node for another tenant or other GPUs."""
    owed = before.claim is not None and before.claim.node != ""
    return owed and (before.gpus, before.tenant) != (after.gpus, after.tenant)


def _asks_otherwise(revision: Revision) -> bool:
    return revision.before.gpus != revision.after.gpus


def _dependencies(submission: Submission) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return submission.after, submission.after_any


def _moved(job: Job, revision: Revision, admitted: Job, by: str) -> Job:
    """Return the job in another project, with that project's pools if the job names none. Slots
    that others were evicted from for the old project's job stay with the old project's share, so
    the claim is given up. Raises TooLate if the job holds slots."""
    if job.active:
        raise TooLate(
            f"job {job.name} is {job.state}; only a waiting job moves to another project. Requeue "
            "it first, or wait for its end",
            field="Tags",
        )
    pools = job.pools if revision.after.pools else admitted.pools
    return replace(in_project(job, admitted.project, by=by), pools=pools, claim=None)


def in_project(job: Job, project: str, *, by: str) -> Job:
    """Return the job in that project. The message of a job without slots reports the move."""
    if job.active:
        return replace(job, project=project)
    origin = f"from project {job.project} " if job.project else ""
    message = f"moved {origin}to project {project} by {by}"
    if not job.tenant:
        return replace(job, project=project, message=message)
    from slotq_core.admission.instances.nodes import tenant_in  # Few jobs ask for GPUs of a node.

    tenant = tenant_in(job.tenant, project)
    return replace(job, project=project, tenant=tenant, message=message)


def with_hold(job: Job, *, held: bool, by: str, now: int) -> Job:
    """Hold the job, or release it. Raises TooLate if the job holds slots: a job can be held only
    before it starts or after an eviction.

    Holding a held job changes nothing, and neither does releasing a job that is not held.
    """
    if held == (job.state is JobState.HELD):
        return job
    if not held:
        state = JobState.PREEMPTED if job.evictions else JobState.PENDING
        return move(job, state, at=now, message=f"released by {by}")
    if job.state is JobState.STOPPING:
        raise TooLate(
            f"job {job.name} is stopping; only a waiting job can be held. If it waits again "
            "afterwards, hold it then",
            field="held",
        )
    if job.active:
        raise TooLate(
            f"job {job.name} is {job.state}; only a waiting job can be held. Cancel it, or "
            "lower its priority so that others evict it",
            field="held",
        )
    return move(job, JobState.HELD, at=now, message=f"held by {by}")


def amended(
    job: Job,
    wanted: Amendment,
    *,
    by: str,
    now: int,
    check_release: Callable[[Job], None],
) -> Job:
    """Return the job with the wanted changes that need nothing but the job: all but those of its
    request. `check_release` is called before a release. Raises what each change raises."""
    if wanted.give_up is not None:
        job = without_attempt(job, number=wanted.give_up, by=by, now=now)
    if wanted.held is not None:
        if not wanted.held:
            check_release(job)
        job = with_hold(job, held=wanted.held, by=by, now=now)
    return job


def orders_stop(before: Job, after: Job) -> bool:
    """Whether this change orders the job's attempt to stop. An earlier order does not count: its
    own handler carries it out, after its grace."""
    earlier = before.attempt.stop if before.attempt else None
    return after.attempt is not None and after.attempt.stop not in {None, earlier}


def without_attempt(job: Job, *, number: int, by: str, now: int) -> Job:
    """Return the job with the attempt of that number given up: the attempt stops and the job waits
    again.

    Nothing changes if that attempt is over or is already being stopped for another reason than a
    cancel. Therefore a repeated request gives up only one attempt. Raises TooLate if the attempt is
    being stopped by a cancel, and InvalidRequest for a number that no attempt has had.
    """
    if number > job.attempts:
        raise InvalidRequest(
            f"job {job.name} has begun {job.attempts} attempts; there is no attempt {number}",
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
