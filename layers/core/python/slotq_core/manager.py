"""The queue manager: what the Lambda, the emulator and the simulator all run.

A pass: load -> plan -> commit -> effect -> confirm. Correctness comes from the conditions of the
commits alone, so any number of managers may work at once; a conflict means: load and plan again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from slotq_core import explaining, names
from slotq_core.amending import Amendment, alive, settled, with_hold, without_attempt
from slotq_core.configuring import Configurator
from slotq_core.effects import Effects
from slotq_core.errors import (
    Conflict,
    NameTaken,
    NoSuchJob,
    NotUnderstood,
    SlotQError,
    Unavailable,
)
from slotq_core.explaining import ANY_JOB, PoolStatus, Status, Wanted
from slotq_core.model.attempts import StopCause
from slotq_core.model.jobs import Job, JobState, Submission
from slotq_core.poison import Nowhere, Poisons
from slotq_core.policy.admission import NO_RIGHTS, admit
from slotq_core.policy.apply import Step, cancelled, pools_touched, steps
from slotq_core.policy.cycle import plan
from slotq_core.policy.disclosure import Shown, shown
from slotq_core.policy.plan import Decision
from slotq_core.policy.plans import ANY_PLAN, TrainingPlans
from slotq_core.policy.roles import ANY_ROLE, ExecutionRoles
from slotq_core.policy.users import Rights
from slotq_core.ports import (
    Change,
    Clock,
    DeadLetters,
    Finding,
    Notifier,
    Observation,
    Request,
    Store,
    TrainingService,
    World,
)
from slotq_core.reconcile import Reconciler

PASS_BUDGET = 30_000
"""How long a pass may go on deciding (ms). What is left is done by the pass it asks for."""

LEASE_MARGIN = 10_000
"""How much longer than its pass a holder keeps the lease (ms), if it dies."""

DOCTOR_BUDGET = 15_000
"""How long a look at SageMaker may take while somebody waits for it (ms): API Gateway gives up
after 29 s."""

DOCTOR_ENDS = 24_000
"""When the look at the table ends, counted from the doctor's beginning (ms)."""

JOBS_PER_COMMIT = 20
"""A transaction has at most 100 actions, and a job costs up to four. A large eviction takes
several; its claim goes with the first, so that the rest is owed even if we die in between."""

_TRIES = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class PassResult:
    """What a pass did, in the order of the commits, and when time alone calls for the next."""

    decisions: tuple[Decision, ...] = ()
    wake_at: int | None = None
    troubles: tuple[str, ...] = ()
    """What went wrong with single jobs; their intents stay."""
    unfinished: bool = False
    """The budget was used up; another pass has been asked for."""
    busy: bool = False
    """Another handler does, or has done, what this one came for."""
    findings: tuple[Finding, ...] = ()
    """What a reconciliation found, where this was its tick."""


class QueueManager:
    """The user's verbs and the queue's reactions, over the ports."""

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
    ) -> None:
        """`rights`: what users may hold, and the classes there are. `roles` and `plans`: what
        training jobs may run under and on."""
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
        self.configuration = Configurator(store, clock, self._wake)
        """What operators change."""

    def submit(self, submission: Submission, request: Request, *, submitter: str) -> Status:
        """Keep the job; once this has returned it is not lost. A pass follows on its own.

        The same submission again, while the job lives, is answered with the job as it is. Raises
        InvalidRequest, NeverFits, ClassNotAllowed, RoleNotAllowed, PlanNotAllowed or NameTaken;
        then nothing is stored.
        """
        known = self._store.job(submission.name)
        if known is None:
            self._roles.check(submission.role, submitter=submitter)
            self._plans.check(submission.plan)
            pools, now = self._store.pools(), self._clock.now()
            job = admit(submission, pools, submitter=submitter, now=now, rights=self._rights)
            self._refuse_foreign(submission.name)
            try:
                known = self._store.submit(job, request)
            except NameTaken:
                known = self._job(submission.name)
            else:
                self._wake()
        _refuse_other(known, submission)
        return self._status(known)

    def cancel(self, name: str, *, by: str) -> Status:
        """The user does not want the job any more. Raises NoSuchJob, or TooLate if it has ended.

        A job that holds slots is stopped first; whatever else was about to happen to it, it ends
        cancelled, unless its training completes before the stop.
        """
        for _ in range(_TRIES):
            job = self._job(name)
            if _is_cancelled(job):
                return self._status(job)
            wanted = Change(before=job, after=cancelled(alive(job), by, self._clock.now()))
            try:
                (job,) = self._store.commit([wanted])
            except Conflict:
                continue
            self._carry_out_now(job)
            self._wake()
            return self._status(self._job(name))
        raise Unavailable(f"job {name} keeps changing; try again")

    def amend(self, name: str, amendment: Amendment, *, by: str) -> Status:
        """Hold the job, release it, give its attempt up, or change its settings and its request.
        Raises NoSuchJob, TooLate, and what a submission like that would raise; then nothing is
        changed.
        """
        for _ in range(_TRIES):
            job = alive(self._job(name))
            try:
                after, request = self._amended(job, amendment, by)
                if after == job and request is None:
                    return self._status(job)
                (job,) = self._store.commit([Change(before=job, after=after, request=request)])
            except Conflict:
                continue
            if amendment.give_up is not None:
                self._carry_out_now(job)
            self._wake()
            return self._status(self._job(name))
        raise Unavailable(f"job {name} keeps changing; try again")

    def _amended(self, job: Job, wanted: Amendment, by: str) -> tuple[Job, Request | None]:
        """The job and, where it changes, its request as they shall be."""
        after, request, now = job, None, self._clock.now()
        if wanted.revise is not None:
            before = self._store.request(job.name)
            revision = wanted.revise(before)
            request = revision.request if revision.request != before else None
            admitted = admit(
                revision.after,
                self._store.pools(),
                submitter=job.submitter,
                now=now,
                rights=self._rights,
            )
            after = settled(job, revision, admitted, self._rights.classes)
        if wanted.give_up is not None:
            after = without_attempt(after, number=wanted.give_up, by=by, now=now)
        if wanted.held is not None:
            after = with_hold(after, held=wanted.held, by=by, now=now)
        return after, request

    def request(self, name: str, *, by: str) -> Shown:
        """The job's CreateTrainingJob request as it stands, as `by` may see it.

        Raises NoSuchJob.
        """
        job = self._job(name)
        return shown(self._store.request(job.name), submitter=job.submitter, to=by)

    def observe(self, observation: Observation) -> str:
        """Take in one training event; any number of times, in any order. Runs no pass.

        Returns why it can change nothing, where it cannot.
        """
        try:
            ignored = self._effects.observe(observation)
        except NotUnderstood as error:
            ignored = str(error)
            self._poisons.tell("job", observation.training_job, ignored)
        self._store.bump()
        return ignored

    def tick(self, *, holder: str = "here", budget: int = PASS_BUDGET) -> PassResult:
        """A pass, after what only time calls for: marking the history, and a reconciliation where
        one is due. None of these stops the others."""
        until = self._clock.now() + budget
        troubles, findings = [], []
        try:
            self._store.expire(now=self._clock.now())
        except SlotQError as error:
            troubles.append(f"history: {error}")
        try:
            findings = self._reconciler.run_if_due(self._clock.now(), until=until)
        except SlotQError as error:
            troubles.append(f"reconciliation: {error}")
        if findings:
            self._store.bump()
        result = self.run_pass(holder=holder, budget=max(0, until - self._clock.now()))
        return replace(result, troubles=(*troubles, *result.troubles), findings=tuple(findings))

    def doctor(self, *, fix: bool = False) -> list[Finding]:
        """Everything that disagrees with itself or with SageMaker, mended where `fix` says so.
        Reads everything: for people; what there is not the time for is said."""
        began = self._clock.now()
        try:
            found = self._reconciler.reconcile(mend=fix, until=began + DOCTOR_BUDGET)
        except Unavailable as error:
            found = [Finding(kind="unavailable", subject="SageMaker", text=str(error))]
        until = began + DOCTOR_ENDS
        found += self._store.inspect(mend=fix, time_left=lambda: until - self._clock.now())
        if fix and found:
            self._wake()
        return found

    def run_pass(
        self, *, holder: str = "here", budget: int = PASS_BUDGET, only_news: bool = False
    ) -> PassResult:
        """Decide and act until nothing is left to decide, or the budget (ms) is used up.

        Only the holder of the lease does; the rest return at once, and the holder sees what they
        came for in the wake's generation. `holder` names this handler's invocation. With
        `only_news` also what comes when everything has been seen to returns at once: of the passes
        that a burst asks for, most come late. What only time calls for is left to the tick.
        """
        until = self._clock.now() + min(budget, PASS_BUDGET)
        result = PassResult()
        while (generation := self._take_lease(holder, until, only_news=only_news)) is not None:
            try:
                result = self._decide(result, until)
            except SlotQError:
                with suppress(SlotQError):
                    self._store.end_lease(holder, generation=None)
                raise
            finished = None if result.unfinished else generation
            if self._store.end_lease(holder, generation=finished):
                if result.unfinished:
                    self._notifier.wake()
                return result
        return replace(result, busy=True)

    def _take_lease(self, holder: str, until: int, *, only_news: bool) -> int | None:
        now = self._clock.now()
        lease = max(until, now) + LEASE_MARGIN
        return self._store.take_lease(holder, now=now, until=lease, only_news=only_news)

    def _decide(self, before: PassResult, until: int) -> PassResult:
        done, troubles = list(before.decisions), list(before.troubles)
        while self._clock.now() < until:
            world = self._store.load(self._clock.now())
            troubles += self._poisons.quarantine(world.poison)
            troubles += self._carry_out(self._effects.stale(world.snapshot.active))
            planned = plan(world.snapshot, self._clock.now())
            if not planned.decisions:
                return PassResult(
                    decisions=tuple(done), troubles=tuple(troubles), wake_at=planned.wake_at
                )
            done += self._apply(planned.decisions, world, until, troubles)
        return PassResult(
            decisions=tuple(done),
            troubles=tuple(troubles),
            wake_at=self._clock.now(),
            unfinished=True,
        )

    def _carry_out(self, jobs: Iterable[Job]) -> Iterator[str]:
        """Call SageMaker for each. What goes wrong with one stops none of the others: its intent
        stays, and the next pass finishes it."""
        for job in jobs:
            try:
                self._effects.carry_out(job)
            except SlotQError as error:
                yield f"{job.name}: {error}"

    def _carry_out_now(self, job: Job) -> None:
        """What goes wrong is left to the pass that is asked for: the intent is kept."""
        for _ in self._carry_out([job]):
            pass

    def status(self, name: str) -> Status:
        """One job with its place, its reason, its outlook and its attempts. Raises NoSuchJob."""
        job = self._job(name)
        attempts = self._store.attempts(name)
        if job.terminal or job.active:
            return Status(job=job, attempts=attempts)
        now = self._clock.now()
        world = self._store.load(now).snapshot
        known = explaining.looked_into(job, world, self._place(job), now)
        return replace(known, attempts=attempts)

    def statuses(
        self, states: Iterable[JobState] | None = None, wanted: Wanted = ANY_JOB
    ) -> list[Status]:
        """The jobs in these states (None: in any), and only those that are wanted, in the order of
        the queue. Of many thousands the latest of each state are looked at."""
        now = self._clock.now()
        found = self._store.jobs(JobState if states is None else states, limit=wanted.looks_at)
        jobs = [job for job in found if wanted.has(job)]
        return explaining.statuses(jobs, self._store.load_all(now).snapshot, now)

    def longest_wait(self) -> int:
        """How long the oldest waiting job has been in the queue (ms); 0 where none waits."""
        since = self._store.waiting_since()
        return 0 if since is None else max(0, self._clock.now() - since)

    def pools(self) -> list[PoolStatus]:
        """The pools in their order, with what is used of them and what was learned of them."""
        now = self._clock.now()
        world = self._store.load(now)
        return [
            PoolStatus(pool=pool, size=pool.size(now), used=world.ledgers[pool.name].used)
            for pool in world.snapshot.pools
        ]

    def _wake(self) -> None:
        """The bump is the word that counts; the wake only makes it heard soon."""
        self._store.bump()
        self._notifier.wake()

    def _job(self, name: str) -> Job:
        job = self._store.job(name) if names.is_legal(name) else None
        if job is None:
            raise NoSuchJob(f"there is no job '{name[: names.LONGEST]}'", field="name")
        return job

    def _status(self, job: Job) -> Status:
        if job.terminal or job.active:
            return Status(job=job)
        place, now = self._place(job), self._clock.now()
        planned = plan(self._store.load(now).snapshot, now)
        return Status(job=job, place=place, reason=explaining.why(job, planned, place))

    def _place(self, job: Job) -> int | None:
        return 1 + self._store.ahead_of(job) if job.waits else None

    def _refuse_foreign(self, name: str) -> None:
        try:
            there = self._training.describe(name)
        except Unavailable:
            return  # Whether the name is free shows when the job starts.
        if there is not None:
            raise NameTaken(
                f"SageMaker has a training job '{name}' that is not this queue's; "
                "choose another name",
                field="TrainingJobName",
            )

    def _apply(
        self, decisions: Iterable[Decision], world: World, until: int, troubles: list[str]
    ) -> Iterator[Decision]:
        """Commit each decision, then call SageMaker. Ends at the first conflict: the world is not
        what was planned for any more, and the next round plans for what it is."""
        pools = {pool.name: pool for pool in world.snapshot.pools}
        versions = {name: ledger.version for name, ledger in world.ledgers.items()}
        for decision in decisions:
            if self._clock.now() >= until:
                return
            touched = [name for name in pools_touched(decision) if name in versions]
            for part in _transactions(steps(decision, pools, self._clock.now())):
                seen = {name: versions[name] for name in touched}
                try:
                    jobs = self._store.commit(part, seen=seen)
                except Conflict:
                    return
                versions |= {name: version + 1 for name, version in seen.items()}
                troubles += self._carry_out(jobs)
            yield decision


def _is_cancelled(job: Job) -> bool:
    stop = job.attempt.stop if job.attempt else None
    return job.state is JobState.CANCELLED or (
        stop is not None and stop.cause is StopCause.CANCELLED
    )


def _refuse_other(known: Job, submission: Submission) -> None:
    """A name belongs to one submission: the same again is welcome while its job lives."""
    if known.terminal:
        raise NameTaken(
            f"job '{known.name}' has ended ({known.state}); submit under another name",
            field="TrainingJobName",
        )
    if known.digest != submission.digest:
        raise NameTaken(
            f"another submission named '{known.name}' is {known.state}; choose another name, "
            "or cancel that one first",
            field="TrainingJobName",
        )


def _transactions(changed: Sequence[Step]) -> Iterator[list[Change]]:
    """A decision's changes in parts that fit a transaction, in order."""
    for start in range(0, len(changed), JOBS_PER_COMMIT):
        part = changed[start : start + JOBS_PER_COMMIT]
        yield [Change(before=before, after=after) for before, after in part]
