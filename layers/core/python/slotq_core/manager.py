"""The queue manager that the Lambda, the emulator and the simulator run.

The conditions of the commits alone guarantee correctness, so any number of managers may work at
once. After a conflict a manager loads again. Passes make the decisions (`passes`).
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from slotq_core import names
from slotq_core.admission.caller_limits import check_class, check_priority, counted_as, of_caller
from slotq_core.admission.roles import ANY_ROLE, ExecutionRoles
from slotq_core.admission.rules import NO_RIGHTS, admit
from slotq_core.admission.training_plans import ANY_PLAN, TrainingPlans
from slotq_core.errors import (
    Conflict,
    ExaminedLately,
    NameTaken,
    NoSuchJob,
    NotUnderstood,
    Refused,
    SlotQError,
    Unavailable,
)
from slotq_core.model.attempts import StopCause
from slotq_core.model.jobs import WAITING_STATES, Job, JobState, Submission
from slotq_core.model.prescriptions import APPROVAL
from slotq_core.model.reasons import units
from slotq_core.operations import rights_report, status
from slotq_core.operations.admit import Admitter
from slotq_core.operations.amend import (
    Amendment,
    Changed,
    Wish,
    alive,
    settled,
    with_hold,
    without_attempt,
)
from slotq_core.operations.bulk import Bulk
from slotq_core.operations.effects import Effects, Observed
from slotq_core.operations.passes import PASS_BUDGET, Passes, PassResult
from slotq_core.operations.poison import Nowhere, Poisons
from slotq_core.operations.reconcile import Reconciler
from slotq_core.operations.resubmit import Resubmitter
from slotq_core.operations.status import (
    ANY_JOB,
    MOST_LISTED,
    MOST_LOOKED_AT,
    LimitsStatus,
    PoolStatus,
    Sharers,
    Status,
    Wanted,
)
from slotq_core.operations.usage.day_sums import DaySums
from slotq_core.policy.cycle import plan
from slotq_core.policy.lifecycle.apply import cancelled
from slotq_core.policy.plan import Plan
from slotq_core.policy.state.user_limits import Rights
from slotq_core.ports.store import Store
from slotq_core.ports.stored import Change, Configuration, Finding, StoredAlready
from slotq_core.ports.surroundings import Clock, DeadLetters, Notifier
from slotq_core.ports.training import Observation, Request, TrainingService
from slotq_core.privacy.disclosure import Shown, shown
from slotq_core.privacy.identity import BY_DEFAULT, People

if TYPE_CHECKING:
    from slotq_core.operations.authorize import Authorizer
    from slotq_core.operations.configuring.configurator import Configurator
    from slotq_core.operations.usage.report import UsageReport

DOCTOR_BUDGET = 15_000
"""The longest that `doctor` may examine SageMaker while somebody waits (ms). API Gateway times out
after 29 s."""

DOCTOR_ENDS = 24_000
"""When the examination of the table ends, from the start of `doctor` (ms)."""

EXAMINE_EVERY = 60_000
"""The least time between two requested examinations (ms)."""

_TRIES = 20


class QueueManager:
    """The user's verbs and the queue's reactions, on the ports."""

    def __init__(
        self,
        *,
        store: Store,
        training: TrainingService,
        clock: Clock,
        notifier: Notifier,
        dead_letters: DeadLetters | None = None,
        rights: Rights = NO_RIGHTS,
        roles: ExecutionRoles = ANY_ROLE,
        plans: TrainingPlans = ANY_PLAN,
        operators: tuple[str, ...] = (),
    ) -> None:
        """`rights` holds user limits and priority classes. `roles` and `plans` are the execution
        roles and training plans that training jobs may use. `operators`: patterns of callers that
        no configuration can remove."""
        self._rights = rights
        self._roles = roles
        self._plans = plans
        self._store = store
        self._training = training
        self._clock = clock
        self._notifier = notifier
        self._effects = Effects(store, training, clock)
        self._reconciler = Reconciler(store, training, clock, self._effects)
        self._poisons = Poisons(store, dead_letters or Nowhere())
        self._passes = Passes(
            store=store,
            clock=clock,
            notifier=notifier,
            effects=self._effects,
            poisons=self._poisons,
        )
        self._admitter = Admitter(store, clock)
        self._operators = operators
        self._resubmitter = Resubmitter(store, submit=self._submitted)
        self._day_sums = DaySums(store, clock)
        self.bulk = Bulk(
            store,
            clock,
            decide=self._decided,
            fulfil=self._fulfilled,
            stop=self._carry_out_now,
            wake=self._wake,
        )
        """The users' verbs for many jobs in one call."""

    # A cold start that only plans, or only takes a job, pays for no more than that.

    @cached_property
    def authorizer(self) -> Authorizer:
        """What callers may do."""
        from slotq_core.operations.authorize import Authorizer

        return Authorizer(self._store, self._operators)

    @cached_property
    def configuration(self) -> Configurator:
        """The operators' verbs."""
        from slotq_core.operations.configuring.configurator import Configurator

        return Configurator(self._store, self._clock, self._wake, permissions=self.authorizer.under)

    @cached_property
    def usage(self) -> UsageReport:
        """What jobs have used."""
        from slotq_core.operations.usage.report import UsageReport

        return UsageReport(self._store, self._clock)

    def submit(self, submission: Submission, request: Request, *, submitter: str) -> Status:
        """Store the job. Once this returns, the job is not lost; a pass follows without further
        calls.

        The status has no place and no reason: the calls are the same, whatever waits. The same
        submission again, while the job lives, returns the job as it is. Raises InvalidRequest,
        NeverFits, ClassNotAllowed, ProjectNotAllowed, ForbiddenByProject, RoleNotAllowed,
        PlanNotAllowed, NameTaken, PriorityTooHigh or LimitReached; then nothing is stored.
        """
        return self._told(self._submitted(submission, request, submitter))

    def _submitted(self, submission: Submission, request: Request, submitter: str) -> Changed:
        """Store the job, unless the same submission is stored already. Asks for no pass.

        Only a refusal looks whether the name is known: a repeated submission is never refused
        because a pool or a limit has changed since.
        """
        try:
            return Changed(job=self._keep(submission, request, submitter), anew=True)
        except Refused as refusal:
            if isinstance(refusal, NameTaken) and not isinstance(refusal, StoredAlready):
                raise
            is_stored = isinstance(refusal, StoredAlready)
            known = refusal.job if isinstance(refusal, StoredAlready) else None
            known = known or self._store.job(submission.name)
            if known is None or not (is_stored or self.authorizer.sees(known, by=submitter)):
                raise
        self._refuse_other(known, submission, submitter)
        return Changed(job=known, anew=False)

    def _keep(self, submission: Submission, request: Request, submitter: str) -> Job:
        """Store a new job."""
        from slotq_core.admission.prescribed import completed, usable_pools, with_approval

        stand, now = self._store.configuration(), self._clock.now()
        permissions = self.authorizer.under(stand.sharing)
        project = permissions.project_for(submission.project, submitter)
        if project is not None:
            submission = replace(submission, project=project.name)
        submission, request = completed(submission, request, project)
        self._roles.check(submission.role, submitter=submitter)
        self._plans.check(submission.plan)
        job = admit(
            submission,
            usable_pools(submission, stand.pools, project),
            submitter=submitter,
            now=now,
            rights=self._rights,
            people=stand.people,
            by_default=project.pools if project else (),
        )
        permissions.check_priority(project, job.priority, caller=submitter)
        job = with_approval(job, project, permissions.role(submitter, job.project), now)
        with self._admitter.counted(job, stand) as opens_line:
            try:
                return self._store.submit(job, request, opens_line=opens_line)
            except StoredAlready as stored:
                if stored.job is not None:
                    self._refuse_other(stored.job, submission, submitter)
                raise

    def _refuse_other(self, known: Job, submission: Submission, submitter: str) -> None:
        """Refuse a different submission under the same name, or any after the job has ended. Who
        may not see that job learns only that the name is taken. Raises NameTaken."""
        if not self.authorizer.sees(known, by=submitter):
            raise NameTaken(
                f"a job named '{known.name}' exists already; choose another name",
                field="TrainingJobName",
            )
        if known.terminal:
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

    def cancel(self, name: str, *, by: str) -> Status:
        """Cancel the job. Raises NoSuchJob, NotPermitted, or TooLate if the job has ended.

        A job that holds slots is stopped first. It then ends as cancelled, unless its training
        completes before the stop.
        """
        return self._told(self._fulfilled(Wish(name=name, amendment=None), by))

    def amend(self, name: str, amendment: Amendment, *, by: str) -> Status:
        """Hold or release the job, give its attempt up, or change its settings, its request or its
        project. Raises NoSuchJob, NotPermitted, TooLate, and what a submission of the changed
        request would raise; then nothing is changed."""
        return self._told(self._fulfilled(Wish(name=name, amendment=amendment), by))

    def _told(self, changed: Changed) -> Status:
        """Ask for a pass if something was written. Return the job as this call has left it, without
        place and reason: these cost more than the change, and `status` tells them."""
        if changed.anew:
            self._wake()
        return Status(job=changed.job)

    def _fulfilled(self, wish: Wish, by: str) -> Changed:
        """Commit one wish and stop the attempt that it stops. Asks for no pass."""
        if wish.retry is not None:
            job = self._job(wish.name, to=by)
            wish.check_state(job)
            return self._resubmitter.retry(job, wish.retry, by=by)
        for _ in range(_TRIES):
            try:
                decided = self._decided(wish, by)
                if isinstance(decided, Job):
                    return Changed(job=decided, anew=False)
                (job,) = self._store.commit([decided])
            except Conflict:
                continue
            if wish.stops and job.attempt is not None:
                self._carry_out_now(job)
                with suppress(SlotQError):  # The change is committed, whatever can be read now.
                    job = self._job(job.name)
            return Changed(job=job, anew=True)
        raise Unavailable(f"job {wish.name} keeps changing; try again")

    def _decided(self, wish: Wish, by: str) -> Change | Job:
        """The change that a wish asks for, or the job itself if nothing changes. Raises what the
        verbs raise, and TooLate if the job is no longer in one of the wish's states."""
        job = self._job(wish.name)
        if not self.authorizer.check_change(job, by=by):
            raise _no_such_job(wish.name)
        decided = self._change_of(job, wish, by)
        if isinstance(decided, Change):
            wish.check_state(job)
        return decided

    def _change_of(self, job: Job, wish: Wish, by: str) -> Change | Job:
        if wish.amendment is None:
            if _is_cancelled(job):
                return job
            return Change(before=job, after=cancelled(alive(job), by, self._clock.now()))
        after, request = self._amended(alive(job), wish.amendment, by)
        if after == job and request is None:
            return job
        return Change(before=job, after=after, request=request)

    def _amended(self, job: Job, wanted: Amendment, by: str) -> tuple[Job, Request | None]:
        """The amended job, and the amended request if it differs."""
        from slotq_core.admission.prescribed import (
            check_amended,
            completed,
            usable_pools,
            with_approval,
        )

        after, request, now = job, None, self._clock.now()
        if wanted.revise is not None:
            before, stand = self._store.request(job.name), self._store.configuration()
            revision = wanted.revise(before)
            request = revision.request if revision.request != before else None
            permissions = self.authorizer.under(stand.sharing)
            moves = wanted.project not in {None, job.project}
            project = (
                permissions.project_for(wanted.project or "", by)
                if moves
                else stand.sharing.project(job.project)
            )
            if moves and project is not None:
                _, request = completed(revision.after, revision.request, project)
            else:
                check_amended(revision.request, revision.before, revision.after, project)
            admitted = admit(
                replace(revision.after, project=project.name if project else job.project),
                usable_pools(revision.after, stand.pools, project),
                submitter=job.submitter,
                now=now,
                rights=self._rights,
                people=stand.people,
                by_default=project.pools if project else (),
            )
            after = settled(job, revision, admitted, self._rights.classes)
            check_priority(stand.limits, after.priority, caller=by, before=job.priority)
            if after.workload is not job.workload:
                check_class(stand.limits, after, caller=by)
            permissions.check_priority(
                project, after.priority, caller=by, before=None if moves else job.priority
            )
            if moves:
                after = with_approval(after, project, permissions.role(by, after.project), now)
        if wanted.give_up is not None:
            after = without_attempt(after, number=wanted.give_up, by=by, now=now)
        if wanted.held is not None:
            if not wanted.held:
                self._check_release(after, by)
            after = with_hold(after, held=wanted.held, by=by, now=now)
        return after, request

    def _check_release(self, job: Job, by: str) -> None:
        """Raises ForbiddenByProject if the job waits for somebody else's approval."""
        if job.cause == APPROVAL:
            from slotq_core.admission.prescribed import check_release

            sharing = self._store.configuration().sharing
            role = self.authorizer.under(sharing).role(by, job.project)
            check_release(job, sharing.project(job.project), role)

    def request(self, name: str, *, by: str) -> Shown:
        """The part of the job's current CreateTrainingJob request that `by` may see, with its
        project as a tag: whoever submits it again stays in the project. Raises NoSuchJob."""
        job = self._job(name, to=by)
        request = self._store.request(job.name)
        if job.project:
            request = {
                **request,
                "Tags": names.with_project(request.get("Tags") or (), job.project),
            }
        return shown(request, submitter=job.submitter, to=by, people=self.people())

    def people(self) -> People:
        """Who callers are, as configured now."""
        return self._store.configuration().people

    def observe(self, observation: Observation) -> Observed:
        """Take in one training event. Events may repeat and arrive in any order.

        Neither bumps nor runs a pass: where the event calls for a pass, `run_pass` with `bump`
        does both. If the handler dies in between, the tick runs the pass.
        """
        try:
            return self._effects.observe(observation)
        except NotUnderstood as error:
            self._poisons.tell("job", observation.training_job, str(error))
            return Observed(ignored=str(error))

    def tick(self, *, holder: str = "here", budget: int = PASS_BUDGET) -> PassResult:
        """Run the periodic work, then a pass.

        The periodic work audits the callers' counters and some of the stored lines, marks old
        history for removal, adds up what was used on days that are over and what projects with a
        budget have spent, and reconciles if due. An error in one part does not stop the others.
        `budget` is in ms.
        """
        until = self._clock.now() + budget
        troubles, findings = [], []
        stand = None
        try:
            stand = self._store.configuration()
            self.count_spending(stand)
        except SlotQError as error:
            troubles.append(f"budgets: {error}")
        try:
            self._admitter.audit(stand)
        except SlotQError as error:
            troubles.append(f"limits: {error}")
        try:
            self._store.expire(now=self._clock.now())
        except SlotQError as error:
            troubles.append(f"history: {error}")
        try:
            self._day_sums.run_if_due(self._clock.now())
        except SlotQError as error:
            troubles.append(f"usage: {error}")
        try:
            findings = self._reconciler.run_if_due(self._clock.now(), until=until)
        except SlotQError as error:
            troubles.append(f"reconciliation: {error}")
        try:
            findings = [*findings, *self._store.audit(now=self._clock.now())]
        except SlotQError as error:
            troubles.append(f"audit: {error}")
        if findings:
            self._store.bump()
        result = self.run_pass(holder=holder, budget=max(0, until - self._clock.now()))
        return replace(result, troubles=(*troubles, *result.troubles), findings=tuple(findings))

    def count_spending(self, stand: Configuration | None = None) -> None:
        """Add up what the projects with a budget have spent, so that passes know it. `stand`: the
        configuration, if it has just been read."""
        stand = stand or self._store.configuration()
        if any(project.budget for project in stand.sharing.projects):
            from slotq_core.operations.usage.month_sums import MonthSums

            MonthSums(self._store, self._clock).count(stand, self._clock.now())

    def doctor(self, *, fix: bool = False) -> list[Finding]:
        """Find everything that disagrees with itself or with SageMaker, and mend it if `fix` is
        true.

        Starts are left to the pass that follows, whose role may start training jobs. Reads
        everything, so it is for people. A finding says what there was no time for.
        """
        began = self._clock.now()
        try:
            found = self._reconciler.reconcile(mend=fix, starts=False, until=began + DOCTOR_BUDGET)
        except Unavailable as error:
            found = [Finding(kind="unavailable", subject="SageMaker", text=str(error))]
        found += rights_report.examine(self._store, mend=fix)
        until = began + DOCTOR_ENDS
        from slotq_core.operations.configuring.ignored import ignored_settings

        found += ignored_settings(self._store.configuration().pools)
        found += self._store.inspect(mend=fix, time_left=lambda: until - self._clock.now())
        if fix and found:
            self._wake()
        return found

    def examine(self, *, fix: bool = False) -> list[Finding]:
        """Run `doctor` at most once a minute, because it reads everything. Looking and mending have
        separate turns. Raises ExaminedLately."""
        task, now = "mend" if fix else "examine", self._clock.now()
        if not self._store.take_turn(task, now=now, next_at=now + EXAMINE_EVERY):
            due = self._store.next_turn(task) or now
            left = max(1, -(-(due - now) // 1000))
            raise ExaminedLately(
                "the queue examines itself at most once a minute; ask again in "
                f"{units(left, 'seconds')}",
                retry_after=left,
            )
        return self.doctor(fix=fix)

    def limits(self, *, caller: str) -> LimitsStatus:
        """The limits, and what this caller has used."""
        stand = self._store.configuration()
        return LimitsStatus(
            stand=stand,
            caller=caller,
            counted_as=counted_as(stand.limits, caller, stand.people),
            own=of_caller(stand.limits, caller),
            use=self._admitter.use(caller, stand),
        )

    def run_pass(
        self,
        *,
        holder: str = "here",
        budget: int = PASS_BUDGET,
        only_news: bool = False,
        bump: bool = False,
    ) -> PassResult:
        """Decide and act until nothing is left to decide or the budget (ms) is spent. See
        `Passes.run`."""
        return self._passes.run(holder=holder, budget=budget, only_news=only_news, bump=bump)

    def _carry_out_now(self, job: Job) -> None:
        """Carry out the job's intent now. The intent stays stored, so the next pass retries
        errors."""
        self._effects.carry_out_all([job])

    def status(self, name: str, *, to: str | None = None) -> Status:
        """One job with its place, reason, outlook and attempts, as caller `to` may see it (None:
        the queue's owner). Raises NoSuchJob."""
        found = self._store.job_and_attempts(name) if names.is_legal(name) else None
        if found is None or not self.authorizer.sees(found[0], by=to):
            raise _no_such_job(name)
        job, attempts = found
        if job.terminal or job.active:
            return Status(job=job, attempts=attempts)
        now = self._clock.now()
        world = self._store.load(now)
        known = status.looked_into(job, world, now)
        return replace(known, attempts=attempts)

    def statuses(
        self,
        states: Iterable[JobState] | None = None,
        wanted: Wanted = ANY_JOB,
        *,
        to: str | None = None,
    ) -> list[Status]:
        """The wanted jobs in these states (None: any) that caller `to` may see (None: all), in the
        queue's order.

        With more jobs than `Wanted.looks_at`, only the latest of each state are examined, and no
        job has a place: the queue is never read whole. `status` tells the place of one job.
        """
        asked, limit = tuple(JobState if states is None else states), wanted.looks_at
        found = self._store.jobs(asked, limit=limit)
        people = self.people() if wanted.submitter else BY_DEFAULT
        sees = self.authorizer.sight(found, by=to)
        if sees is not None and limit <= len(found) < MOST_LOOKED_AT:
            limit = MOST_LOOKED_AT  # Others' jobs must not crowd the caller's out.
            found = self._store.jobs(asked, limit=limit)
        jobs = [job for job in found if wanted.has(job, people) and (sees is None or sees(job))]
        if not any(job.waits for job in jobs):
            return status.statuses(jobs, Plan(), None)
        if (waiting := status.all_waiting(found, asked, limit)) is None:
            others = self._store.jobs(WAITING_STATES, limit=MOST_LISTED)
            waiting = status.all_waiting(others, WAITING_STATES, MOST_LISTED)
        now = self._clock.now()
        world = self._store.load(now)
        planned = plan(world.snapshot, now, more=world.more)
        return status.statuses(jobs, planned, waiting)

    def longest_wait(self) -> int:
        """The time since the oldest waiting job entered (ms); 0 if none waits."""
        since = self._store.waiting_since()
        return 0 if since is None else max(0, self._clock.now() - since)

    def pools(self) -> list[PoolStatus]:
        """The pools in order, with their size, use and health."""
        now = self._clock.now()
        world = self._store.load(now)
        return [
            PoolStatus(pool=pool, size=pool.size(now), used=world.ledgers[pool.name].used)
            for pool in world.snapshot.pools
        ]

    def sharers(self) -> Sharers:
        """How projects and departments stand, and what the jobs of each project hold."""
        from slotq_core.admission.subscription import held_by_projects
        from slotq_core.policy.explain.standings import standings
        from slotq_core.policy.state.quotas.budgets import budgets_of

        now = self._clock.now()
        snapshot = self._store.load(now).snapshot
        return Sharers(
            held=held_by_projects(snapshot.active),
            standings=tuple(standings(snapshot, now)),
            budgets=budgets_of(snapshot, now),
        )

    def _wake(self) -> None:
        """Bump, and ask for a pass unless one is under way. The bump is what counts; the wake only
        makes a pass come soon.

        Whoever holds the lease sees the new generation before the lease ends, and decides once
        more. If the holder has died, nobody is asked until its lease has run out: the tick takes
        the lease then, as it finds a bump whose handler died before it could ask.
        """
        lease_ends = self._store.bump()
        if lease_ends is None or lease_ends <= self._clock.now():
            self._notifier.wake()

    def _job(self, name: str, *, to: str | None = None) -> Job:
        """The job, if `to` may see it (None: the queue itself). Raises NoSuchJob: nobody learns
        whether a job that is not theirs to see exists."""
        job = self._store.job(name) if names.is_legal(name) else None
        if job is None or not self.authorizer.sees(job, by=to):
            raise _no_such_job(name)
        return job


def _no_such_job(name: str) -> NoSuchJob:
    return NoSuchJob(f"there is no job '{name[: names.LONGEST]}'", field="name")


def _is_cancelled(job: Job) -> bool:
    stop = job.attempt.stop if job.attempt else None
    return job.state is JobState.CANCELLED or (
        stop is not None and stop.cause is StopCause.CANCELLED
    )
