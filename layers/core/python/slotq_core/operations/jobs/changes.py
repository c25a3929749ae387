"""Change a stored job as its user wants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from slotq_core.admission.caller_limits import check_class, check_priority
from slotq_core.admission.checkpoints import assured, provided
from slotq_core.admission.instances.capacity_kinds import as_accepted
from slotq_core.admission.instances.warm_keys import with_warm_key
from slotq_core.admission.prescribed import (
    check_amended,
    check_release,
    completed,
    usable_pools,
    with_approval,
)
from slotq_core.admission.requirements import in_parts
from slotq_core.admission.rules import admit, check_names
from slotq_core.admission.user_groups import rights_of
from slotq_core.errors import (
    Conflict,
    InvalidRequest,
    NoSuchJob,
    NotUnderstood,
    SlotQError,
    Unavailable,
)
from slotq_core.model.attempts import StopCause
from slotq_core.model.jobs import Job, JobState, Submission
from slotq_core.model.pools import Pool
from slotq_core.model.projects import APPROVAL, Project
from slotq_core.operations.admit import Admitter
from slotq_core.operations.amend import (
    Amendment,
    ChangedJob,
    ChangeRequest,
    alive,
    amended,
    notices_of,
    orders_stop,
    settled,
)
from slotq_core.operations.authorize import Authorizer
from slotq_core.operations.effects import Effects
from slotq_core.operations.jobs.lookup import JobLookup, no_such_job
from slotq_core.operations.jobs.submissions import Resubmitter
from slotq_core.operations.status import Status, notices_of_bounds
from slotq_core.policy.lifecycle.apply import cancelled
from slotq_core.ports.store import Store
from slotq_core.ports.stored import Change
from slotq_core.ports.surroundings import Clock
from slotq_core.ports.training import Request

_TRIES = 20


class Changes:
    """The users' verbs for a stored job."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        authorizer: Authorizer,
        effects: Effects,
        *,
        jobs: JobLookup,
        admitter: Admitter,
        resubmitter: Resubmitter,
        wake: Callable[[], None],
    ) -> None:
        """Set up the verbs. `wake` asks for a pass."""
        self._store, self._clock = store, clock
        self._authorizer, self._effects = authorizer, effects
        self._jobs, self._admitter, self._resubmitter = jobs, admitter, resubmitter
        self._wake = wake

    def cancel(self, name: str, *, by: str) -> Status:
        """Cancel the job. Raises NoSuchJob, NotPermitted, or TooLate if the job has ended.

        A job that holds slots is stopped first. It then ends as cancelled, unless its training
        completes before the stop.
        """
        return self._answer(self.apply(ChangeRequest(name=name, amendment=None), by))

    def amend(self, name: str, amendment: Amendment, *, by: str) -> Status:
        """Hold or release the job, give its attempt up, or change its settings, its request or its
        project. Raises NoSuchJob, NotPermitted, TooLate, and what a submission of the changed
        request would raise; then nothing is changed."""
        return self._answer(self.apply(ChangeRequest(name=name, amendment=amendment), by))

    def _answer(self, changed: ChangedJob) -> Status:
        """Request a pass if something was written. Return the changed job without place and reason:
        these cost more than the change, and `status` reports them."""
        if changed.written:
            self._wake()
        return Status(job=changed.job, notices=changed.notices)

    def apply(self, request: ChangeRequest, by: str) -> ChangedJob:
        """Commit one change, and stop the attempt that this change stops. Requests no pass."""
        if request.retry is not None:
            job = self._jobs.found(request.name, to=by)
            request.check_state(job)
            return self._resubmitter.retry(job, request.retry, by=by)
        for _ in range(_TRIES):
            try:
                decided = self.decided(request, by)
                if isinstance(decided, Job):
                    return ChangedJob(job=decided, written=False)
                with self._admitter.moving(decided):
                    (job,) = self._admitter.entering(decided, by=by)
            except Conflict:
                continue
            if request.stops and orders_stop(decided.before, job):
                self.stop(job)
                with suppress(SlotQError):  # The change is committed, whatever can be read now.
                    job = self._jobs.found(job.name)
            notices = (*notices_of(decided), *self._notices_of_bounds(decided))
            return ChangedJob(job=job, written=True, notices=notices)
        raise Unavailable(f"job {request.name} keeps changing; try again")

    def _notices_of_bounds(self, change: Change) -> tuple[str, ...]:
        """The warning of a job that this change makes wait until the configuration changes."""
        if _bound_alike(change.before) == _bound_alike(change.after) or not change.after.waits:
            return ()
        return notices_of_bounds(change.after, self._store.configuration.read())

    def stop(self, job: Job) -> None:
        """Carry out the job's intent now. The intent stays stored, so the next pass retries
        errors."""
        self._effects.carry_out_all([job])

    def decided(self, request: ChangeRequest, by: str) -> Change | Job:
        """The requested change, or the job itself if nothing changes. Raises what the verbs raise,
        and TooLate if the job is no longer in one of the request's states."""
        job = self._jobs.found(request.name)
        if not self._authorizer.check_change(job, by=by):
            raise no_such_job(request.name)
        decided = self._change_of(job, request, by)
        if isinstance(decided, Change):
            request.check_state(job)
        return decided

    def _change_of(self, job: Job, request: ChangeRequest, by: str) -> Change | Job:
        if request.amendment is None:
            if _is_cancelled(job):
                return job
            return Change(before=job, after=cancelled(alive(job), by, self._clock.now()))
        if job.terminal:
            self._check_names(job, request.amendment, by)
        after, revised = self._amended(alive(job), request.amendment, by)
        if after == job and revised is None:
            return job
        return Change(before=job, after=after, request=revised)

    def _check_names(self, job: Job, wanted: Amendment, by: str) -> None:
        """Raises what a wrong tag, pool, class or project of the amendment raises: that would be
        wrong at any time, so it comes before TooLate."""
        if wanted.revise is None:
            return
        try:
            request = self._store.jobs.request(job.name)
        except (NoSuchJob, NotUnderstood):
            return  # Nothing to compare with; that the job has ended is true all the same.
        revision, configuration = wanted.revise(request), self._store.configuration.read()
        if wanted.project not in {None, job.project}:
            self._authorizer.under(configuration.sharing).project_for(wanted.project or "", by)
        check_names(
            revision.before,
            revision.after,
            configuration.pools,
            rights_of(configuration.sharing, by),
        )

    def _amended(self, job: Job, wanted: Amendment, by: str) -> tuple[Job, Request | None]:
        """The amended job, and the amended request if it differs."""
        after, request, now = job, None, self._clock.now()
        if wanted.revise is not None:
            before, configuration = (
                self._store.jobs.request(job.name),
                self._store.configuration.read(),
            )
            revision = wanted.revise(before)
            submission, full = revision.after, revision.request
            permissions = self._authorizer.under(configuration.sharing)
            moves = wanted.project not in {None, job.project}
            if moves and job.group:
                self._check_no_gang(job)
            project = (
                permissions.project_for(wanted.project or "", by)
                if moves
                else configuration.sharing.project(job.project)
            )
            if moves and project is not None:
                submission, full = completed(submission, full, project)
            else:
                check_amended(revision.request, revision.before, revision.after, project)
            rights = rights_of(configuration.sharing, job.person)
            submitted = _as_submitted_now(revision.after, job, configuration.pools, project)
            if revision.after.pools == revision.before.pools:
                submitted = as_accepted(submitted, job, configuration.pools)
            admitted = admit(
                submitted,
                usable_pools(submitted, configuration.pools, project),
                submitter=job.submitter,
                now=now,
                rights=rights,
                people=configuration.people,
                by_default=project.pools if project else (),
            )
            admitted = _on_its_instances(admitted, submitted, full, configuration.pools)
            after = settled(job, revision, admitted, rights.classes, by=by)
            if moves:
                after = replace(after, checkpoints=submission.checkpoints)
            after, full = _with_assurance(job, after, full, configuration.pools)
            request = full if full != before else None
            check_priority(configuration.limits, after.priority, caller=by, before=job.priority)
            if after.workload is not job.workload:
                check_class(configuration.limits, after, caller=by)
            permissions.check_priority(
                project, after.priority, caller=by, before=None if moves else job.priority
            )
            if moves:
                after = with_approval(after, project, permissions.role(by, after.project), now)
        return amended(
            after,
            wanted,
            by=by,
            now=now,
            check_release=lambda current: self._check_release(current, by),
        ), request

    def _check_no_gang(self, job: Job) -> None:
        """Raises InvalidRequest if the job belongs to a gang, which is of one project, or to a
        group that may become one."""
        stored = self._store.groups.get(job.group)
        if stored is None:
            raise InvalidRequest(
                f"job {job.name} stays in its project: the submission of its group {job.group} is "
                "not finished. Send the group again first",
                field="Tags",
            )
        if stored.group.max_parallel is None:
            raise InvalidRequest(
                f"job {job.name} belongs to the gang {job.group}, and a gang is of one project; "
                "submit the gang again in the other project (`slotq clone --group "
                f"{job.group} NEW_NAME --to-project PROJECT`)",
                field="Tags",
            )

    def _check_release(self, job: Job, by: str) -> None:
        """Raises ForbiddenByProject if the job waits for somebody else's approval."""
        if job.cause == APPROVAL:
            sharing = self._store.configuration.read().sharing
            role = self._authorizer.under(sharing).role(by, job.project)
            check_release(job, sharing.project(job.project), role)


def _on_its_instances(
    admitted: Job, submitted: Submission, request: Request, pools: Sequence[Pool]
) -> Job:
    """The job with its GPUs of a node, with how long it may run where pools have hours or
    reservations, and with
    the warm instances that it may use."""
    if submitted.gpus:
        from slotq_core.admission.instances.nodes import (
            with_gpus,  # Few jobs ask for GPUs of a node.
        )

        admitted = with_gpus(admitted, submitted, request, pools)
    if any(pool.asks_how_long for pool in pools):
        from slotq_core.admission.instances.runtimes import with_longest  # Few pools have hours.

        admitted = with_longest(admitted, request, pools)
    return with_warm_key(admitted, request, pools)


def _as_submitted_now(
    wanted: Submission, job: Job, pools: Sequence[Pool], project: Project | None
) -> Submission:
    """The changed submission as admission would accept it now. The job keeps its dependencies. It
    keeps its pools too if it runs in several at once and the submission names none."""
    in_project = replace(
        wanted,
        project=project.name if project else job.project,
        after=(),
        after_any=(),
        pools=wanted.pools or (job.pools if job.parts else ()),
    )
    return in_parts(in_project, pools, project.pools if project else ())


def _with_assurance(
    before: Job, after: Job, request: Request, pools: Sequence[Pool]
) -> tuple[Job, Request]:
    """The changed job with the checkpoints that its pools require, and its request, perhaps with a
    provided checkpoint location. No check for a change without a new pool and without a new risk of
    eviction: the job was accepted. A running attempt gets no location, because it could not use
    one. Raises CheckpointsRequired."""
    same = after.pools == before.pools and after.evictable == before.evictable
    taken = after if same else assured(after, pools)
    if after.active or taken.checkpoints == after.checkpoints:
        return after, request
    return taken, provided(request, taken)


def _bound_alike(job: Job) -> tuple[object, ...]:
    """What decides which quotas and limits bind the job."""
    return job.project, job.demand, job.pools, job.preemptible, job.workload


def _is_cancelled(job: Job) -> bool:
    stop = job.attempt.stop if job.attempt else None
    return job.state is JobState.CANCELLED or (
        stop is not None and stop.cause is StopCause.CANCELLED
    )
