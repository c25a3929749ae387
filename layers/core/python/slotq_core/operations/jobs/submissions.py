"""Accept submissions of jobs, and submit the request of an ended job once more."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from slotq_core import names
from slotq_core.admission.dependencies import Predecessors
from slotq_core.admission.roles_and_plans import ExecutionRoles, TrainingPlans
from slotq_core.admission.submission import Admission, Admitted, After
from slotq_core.errors import Conflict, InvalidRequest, NameTaken, Refused, Unavailable
from slotq_core.model.groups import StoredGroup
from slotq_core.model.jobs import Job, Submission
from slotq_core.model.notices import Callback, CallbackKind
from slotq_core.operations.admit import Admitter
from slotq_core.operations.amend import ChangedJob, Retry
from slotq_core.operations.authorize import Authorizer
from slotq_core.operations.jobs.followers import Followers
from slotq_core.operations.jobs.sweeps import sweep_of_retry
from slotq_core.operations.status import Status, notices_of_bounds
from slotq_core.ports.store import Store
from slotq_core.ports.stored import AwaitedEnded, Configuration, NewJob, StoredAlready
from slotq_core.ports.surroundings import Clock
from slotq_core.ports.training import Request
from slotq_core.privacy.disclosure import shown
from slotq_core.wire.resubmission import all_taken, check_retryable, check_shown, names_to_try

_TRIES = 20
"""How often a submission is tried while its predecessors end."""


NOTHING_ASKED: Mapping[After, Predecessors] = MappingProxyType({})


_NOT_ANSWERED: Mapping[CallbackKind, str] = MappingProxyType(
    {
        CallbackKind.TASK: "this queue answers no tasks of Step Functions: its stack has the "
        "parameter TaskCallbacks, which is off",
        CallbackKind.PIPELINE: "this queue answers no steps of pipelines: its stack has the "
        "parameter CallbackPipelineArns, which is empty",
    }
)


class Submissions:
    """Checks submissions and stores their jobs."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        authorizer: Authorizer,
        admitter: Admitter,
        *,
        roles: ExecutionRoles,
        plans: TrainingPlans,
        wake: Callable[[], None],
        answers: Container[CallbackKind] = (),
    ) -> None:
        """`roles` and `plans`: as for the manager. `wake` asks for a pass. `answers`: the kinds of
        callbacks that this deployment answers."""
        self._store, self._clock = store, clock
        self._authorizer, self._admitter = authorizer, admitter
        self._roles, self._plans = roles, plans
        self._followers = Followers(store, clock)
        self._wake, self._answers = wake, answers

    def submit(self, submission: Submission, request: Request, *, submitter: str) -> Status:
        """Store the job. Once this returns, the job cannot be lost; a pass follows without further
        calls.

        The status has no place and no reason, so the cost does not depend on the queue's length.
        The same submission again, while the job lives, returns the job unchanged; its callback
        takes the place of the one before. With a callback it returns an ended job, too. Raises
        InvalidRequest, NeverFits, CheckpointsRequired, ClassNotAllowed, ProjectNotAllowed,
        ForbiddenByProject, RoleNotAllowed, PlanNotAllowed, NameTaken, PriorityTooHigh or
        LimitReached; then nothing is stored.
        """
        self._check_callback(submission)
        stored = self.stored(submission, request, submitter)
        if submission.callback is not None and not stored.written:
            self._attach(stored.job, submission.callback, submitter)
        if stored.written and stored.job.waits:  # One that is held for approval decides nothing.
            self._wake()
        return Status(job=stored.job, notices=stored.notices)

    def dry_run(self, submission: Submission, request: Request, *, submitter: str) -> Status:
        """What `submit` would do with this submission now: the job that it would store, or the
        stored job. Stores no job, counts no submission and requests no pass.

        Raises what `submit` raises. Another job's name is counted as in `submit`, or guessing names
        would have no limit.
        """
        self._check_callback(submission)
        known = self._store.jobs.get(submission.name)
        if known is not None and self._authorizer.sees(known, by=submitter):
            self.refuse_other(known, submission, submitter)
            return Status(job=known)
        configuration = self._store.configuration.read()
        judged = self.judged(submission, request, submitter, configuration)
        if known is not None:
            with self._admitter.counted([judged.job], configuration):
                self.refuse_other(known, submission, submitter)
        self.check_limits([judged.job], configuration)
        of_bounds = notices_of_bounds(judged.job, configuration)
        return Status(job=judged.job, notices=(*judged.notices, *of_bounds))

    def check_limits(self, jobs: Sequence[Job], configuration: Configuration) -> None:
        """Raises what the limits would raise if one caller submitted these jobs of one project now.
        Counts nothing."""
        self._admitter.check(jobs, configuration)

    def check_room(self, caller: str) -> None:
        """Raises LimitReached if the caller may submit nothing now. Counts nothing."""
        self._admitter.check_room(caller)

    def stored(
        self,
        submission: Submission,
        request: Request,
        submitter: str,
        *,
        followed: bool = False,
        configuration: Configuration | None = None,
        asked: Mapping[After, Predecessors] = NOTHING_ASKED,
    ) -> ChangedJob:
        """Store the job, unless the same submission is stored already. Asks for no pass.
        `followed`: whether a pass has to process its end even without dependents. `configuration`,
        `asked`: the configuration and the predecessors of submissions, if they have just been read.

        Only a refusal looks whether the name is known: a repeated submission is never refused
        because a pool or a limit has changed since.
        """
        for _ in range(_TRIES):
            try:
                now = configuration or self._store.configuration.read()
                judged = self.judged(submission, request, submitter, now, asked=dict(asked))
                job = replace(judged.job, followed=followed)
                return self._keep(submission, replace(judged, job=job), submitter, now)
            except AwaitedEnded:  # A job that it comes after: once more.
                configuration, asked = None, NOTHING_ASKED
            except Refused as refusal:
                return self.despite(refusal, submission, submitter)
        raise Unavailable("the jobs that it comes after keep changing; try again")

    def despite(self, refusal: Refused, submission: Submission, submitter: str) -> ChangedJob:
        """The job of a refused submission that is stored already. Else raises the refusal, or
        NameTaken. One read."""
        known = self._stored_already(refusal, submission, submitter)
        if known is None:
            raise refusal
        self.refuse_other(known, submission, submitter)
        return ChangedJob(job=known, written=False)

    def follow(self, admitted: Sequence[Admitted]) -> None:
        """Follow what new jobs come after, each once. Raises Unavailable."""
        awaited = (job for each in admitted for job in (*each.after, *each.watched))
        self._followers.follow({job.name: job for job in awaited}.values())

    def check_storable(self, admitted: Admitted) -> None:
        """Raises InvalidRequest if no transaction could hold the request. Reads nothing."""
        self._store.jobs.fitting(_new([admitted]))

    def stored_together(
        self,
        admitted: Sequence[Admitted],
        configuration: Configuration,
        *,
        group: StoredGroup | None = None,
    ) -> list[Job] | None:
        """Store new jobs of one caller and project in one transaction. Asks for no pass. The jobs
        that they come after are followed already. `group`: the record of the group that is whole
        with them, stored with them.

        Returns None, and stores nothing, if any limit or condition is in the way, or they are too
        many: `stored` finds out for each job what it is. Raises Unavailable.
        """
        new = _new(admitted)
        if self._store.jobs.fitting(new, group=group) < len(new):
            return None
        try:
            with self._admitter.counted([each.job for each in admitted], configuration) as rights:
                return self._store.jobs.submit_together(
                    new, group=group, opens_line=rights.opens_line, opener=rights.opener
                )
        except (Refused, Conflict):
            return None

    def in_parts(self, admitted: Sequence[Admitted]) -> Iterator[Sequence[Admitted]]:
        """Yield the jobs in parts that one transaction holds."""
        while admitted:
            number = self._store.jobs.fitting(_new(admitted))
            yield admitted[:number]
            admitted = admitted[number:]

    def _stored_already(
        self, refusal: Refused, submission: Submission, submitter: str
    ) -> Job | None:
        """The stored job with the refused submission's name, if it changes the refusal."""
        if isinstance(refusal, StoredAlready):
            return refusal.job or self._store.jobs.get(submission.name)
        known = None if isinstance(refusal, NameTaken) else self._store.jobs.get(submission.name)
        return known if known is not None and self._authorizer.sees(known, by=submitter) else None

    def judged(
        self,
        submission: Submission,
        request: Request,
        submitter: str,
        configuration: Configuration,
        *,
        ours: Container[str] = (),
        asked: dict[After, Predecessors] | None = None,
    ) -> Admitted:
        """The job of a submission under this configuration. Stores nothing, and checks neither the
        name nor counted limits. `ours`: jobs that will be stored before it. `asked`: the
        predecessors found for other members of its group, which mostly have the same; new ones are
        added. Otherwise raises what `submit` raises."""
        admission = Admission(
            submitter=submitter,
            now=self._clock.now(),
            permissions=self._authorizer.under(configuration.sharing),
            people=configuration.people,
            pools=configuration.pools,
            line_by_user=configuration.by_user,
            roles=self._roles,
            plans=self._plans,
        )
        prepared = admission.prepared(submission, request)
        asked = {} if asked is None else asked
        if prepared.after not in asked:
            asked[prepared.after] = self._predecessors(prepared.after, submitter, ours)
        return admission.admitted(prepared, asked[prepared.after], ours=ours)

    def refuse_other(self, known: Job, submission: Submission, submitter: str) -> None:
        """Refuse a different submission under the same name, or any after the job has ended. A
        caller who may not see that job learns only that the name is taken. Raises NameTaken."""
        if not self._authorizer.sees(known, by=submitter):
            raise NameTaken(
                f"a job named '{known.name}' exists already; choose another name",
                field="TrainingJobName",
            )
        if known.terminal and (submission.callback is None or known.digest != submission.digest):
            raise NameTaken(
                f"job '{known.name}' has ended ({known.state}); submit under another name",
                field="TrainingJobName",
            )
        if known.digest != submission.digest:
            raise NameTaken(
                f"another job named '{known.name}' is {known.state}; choose another name, or "
                "cancel that job first",
                field="TrainingJobName",
            )

    def _keep(
        self, submission: Submission, judged: Admitted, submitter: str, configuration: Configuration
    ) -> ChangedJob:
        """Store a new job."""
        job = judged.job
        with self._admitter.counted([job], configuration) as rights:
            self._followers.follow((*judged.after, *judged.watched))
            watched = [group.name for group in judged.watched]
            try:
                stored = self._store.jobs.submit(
                    job,
                    judged.request,
                    opens_line=rights.opens_line,
                    opener=rights.opener,
                    watched=watched,
                    callback=submission.callback,
                )
                of_bounds = () if job.group else notices_of_bounds(stored, configuration)
                notices = (*judged.notices, *of_bounds)
                return ChangedJob(job=stored, written=True, notices=notices)
            except StoredAlready as known:
                if known.job is not None:
                    self.refuse_other(known.job, submission, submitter)
                raise

    def _check_callback(self, submission: Submission) -> None:
        """Raises InvalidRequest if this deployment cannot answer the submission's callback."""
        callback = submission.callback
        if callback is not None and callback.kind not in self._answers:
            raise InvalidRequest(_NOT_ANSWERED[callback.kind], field=names.CALLBACK)

    def _attach(self, job: Job, callback: Callback, submitter: str) -> None:
        """Let the callback take the place of the job's one before. Raises NotPermitted if the
        caller may not change the job: whoever waits may cancel it."""
        self._authorizer.check_change(job, by=submitter)
        self._store.callbacks.attach(job, callback)

    def _predecessors(self, after: After, submitter: str, ours: Container[str]) -> Predecessors:
        """The predecessors of the new job, as far as the submitter may see them."""
        return self._followers.predecessors(
            (*after[0], *after[1]),
            sees=lambda job: self._authorizer.sees(job, by=submitter),
            by=submitter,
            ours=ours,
        )


class Resubmitter:
    """Retries: the request of an ended job under another name, as a job of the caller's.

    The caller must have the right to see the whole request, as for a clone by the client. The new
    submission passes every check of a submission. The retry of a sweep's member belongs to the
    sweep, unless the retry names another name."""

    def __init__(self, store: Store, submissions: Submissions) -> None:
        self._store, self._submissions = store, submissions

    def retry(self, job: Job, wanted: Retry, *, by: str) -> ChangedJob:
        """Submit the job's request under `wanted.new_name`, else under the next free name, in the
        job's current project unless the retry names another.

        Two concurrent retries give the same job: while that job lives, submitting the same request
        under its name again returns that job. Raises InvalidRequest (the job has not ended, or has
        completed), RequestWithheld, NameTaken, and what a submission raises.
        """
        check_retryable(job.name, job.state)
        people = self._store.configuration.read().people
        request = names.with_project(self._store.jobs.request(job.name), job.project)
        seen = shown(request, submitter=job.submitter, to=by, people=people)
        check_shown(job.name, seen.withheld)

        def submit(name: str) -> ChangedJob:
            submission, request = wanted.renamed(seen.request, name)
            sweep = None
            if wanted.new_name is None:
                sweep = sweep_of_retry(submission, job, self._store.groups, by=by, people=people)
            if sweep is None:
                return self._submissions.stored(submission, request, by)
            submission = replace(submission, group=job.group)
            return self._submissions.stored(submission, request, by, followed=sweep.has_goal)

        if wanted.new_name is not None:
            return submit(wanted.new_name)
        for name in names_to_try(job.name):
            try:
                return submit(name)
            except NameTaken:
                continue
        raise all_taken(job.name)


def _new(admitted: Sequence[Admitted]) -> list[NewJob]:
    return [
        NewJob(job=each.job, request=each.request, watched=[job.name for job in each.watched])
        for each in admitted
    ]
