"""The queue manager that the Lambda, the emulator and the simulator run.

The conditions of the commits alone guarantee correctness, so any number of managers may work at
once. After a conflict a manager loads again. Passes make the decisions (`passes`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from slotq_core.admission.caller_limits import counted_as, of_caller
from slotq_core.admission.roles_and_plans import ANY_PLAN, ANY_ROLE, ExecutionRoles, TrainingPlans
from slotq_core.errors import ExaminedLately, NotUnderstood, SlotQError, Unavailable
from slotq_core.model.notices.rules import Telling
from slotq_core.model.reasons import units
from slotq_core.model.sharing import NO_SHARING
from slotq_core.operations import decisions_in_parts, rights_report
from slotq_core.operations.admit import Admitter
from slotq_core.operations.attempts.suspends import Suspends
from slotq_core.operations.effects import Effects, Observed
from slotq_core.operations.passes import PASS_BUDGET, Passes, PassResult
from slotq_core.operations.poison import Nowhere, Poisons
from slotq_core.operations.reconcile import Reconciler
from slotq_core.operations.status import LimitsStatus, PoolStatus, Sharers
from slotq_core.operations.usage.day_sums import DaySums
from slotq_core.ports.scripts import NoScripts, Scripts
from slotq_core.ports.store import Store
from slotq_core.ports.stored import Configuration, Finding
from slotq_core.ports.surroundings import Clock, DeadLetters, InParallel, Notifier, one_by_one
from slotq_core.ports.training import Observation, TrainingService

if TYPE_CHECKING:
    from slotq_core.admission.user_quotas import UserQuota
    from slotq_core.operations.authorize import Authorizer
    from slotq_core.operations.bulk import Bulk
    from slotq_core.operations.configuring.configurator import Configurator
    from slotq_core.operations.jobs.as_it_stands import AsItStands
    from slotq_core.operations.jobs.changes import Changes
    from slotq_core.operations.jobs.group_lookup import GroupLookup
    from slotq_core.operations.jobs.groups import GroupsOfJobs
    from slotq_core.operations.jobs.lookup import JobLookup
    from slotq_core.operations.jobs.submissions import Submissions
    from slotq_core.operations.project_metrics import Measured
    from slotq_core.operations.scripts.listening import Listener
    from slotq_core.operations.usage.report import UsageReport
    from slotq_core.operations.usage.timeline import Timeline

DOCTOR_BUDGET = 15_000
"""The longest that `doctor` may examine SageMaker while somebody waits (ms). API Gateway times out
after 29 s."""

DOCTOR_ENDS = 24_000
"""When the examination of the table ends, from the start of `doctor` (ms)."""

EXAMINE_EVERY = 60_000
"""The least time between two requested examinations (ms)."""


class QueueManager:
    """The queue's reactions, on the ports, and its parts for what users ask."""

    def __init__(
        self,
        *,
        store: Store,
        training: TrainingService,
        clock: Clock,
        notifier: Notifier,
        dead_letters: DeadLetters | None = None,
        roles: ExecutionRoles = ANY_ROLE,
        plans: TrainingPlans = ANY_PLAN,
        operators: tuple[str, ...] = (),
        scripts: Scripts | None = None,
        telling: Telling = Telling.OFF,
        at_once: InParallel = one_by_one,
    ) -> None:
        """`roles` and `plans` are the execution roles and training plans that training jobs may
        use. `operators`: patterns of callers that no configuration can remove. Without `scripts`
        no script is asked to release its slots: jobs are stopped at once. `telling`: whether people
        are told of their jobs, as an operator who configures it should know. `at_once` stores
        several members of a group at once; it is not the one that the store uses."""
        self._telling, self._at_once = telling, at_once
        self._roles = roles
        self._plans = plans
        self._scripts = scripts or NoScripts()
        self._store = store
        self._training = training
        self._clock = clock
        self._notifier = notifier
        suspends = Suspends(store.jobs, self._scripts, notifier, clock)
        self._effects = Effects(store, training, clock, suspends, self._scripts)
        self._reconciler = Reconciler(store, training, clock, self._effects)
        self._poisons = Poisons(store.repair, dead_letters or Nowhere())
        self._passes = Passes(
            store=store,
            clock=clock,
            notifier=notifier,
            effects=self._effects,
            poisons=self._poisons,
        )
        self._admitter = Admitter(store, clock)
        self._operators = operators
        self._day_sums = DaySums(store.usage, store.scheduler, clock)

    # A cold start that only plans, or only takes a job, pays for no more than that.

    @cached_property
    def authorizer(self) -> Authorizer:
        """What callers may do."""
        from slotq_core.operations.authorize import Authorizer

        return Authorizer(self._store.configuration, self._operators)

    @cached_property
    def submissions(self) -> Submissions:
        """The users' verb for new jobs."""
        from slotq_core.operations.jobs.submissions import Submissions

        return Submissions(
            self._store,
            self._clock,
            self.authorizer,
            self._admitter,
            roles=self._roles,
            plans=self._plans,
            wake=self._wake,
        )

    @cached_property
    def groups(self) -> GroupsOfJobs:
        """The users' verb for new groups of jobs."""
        from slotq_core.operations.jobs.groups import GroupsOfJobs

        return GroupsOfJobs(
            self._store,
            self._clock,
            self.submissions,
            lookup=self.group_lookup,
            wake=self._wake,
            at_once=self._at_once,
        )

    @cached_property
    def group_lookup(self) -> GroupLookup:
        """The groups, as callers see them."""
        from slotq_core.operations.jobs.group_lookup import GroupLookup

        return GroupLookup(self._store, self._clock, self.authorizer)

    @cached_property
    def jobs(self) -> JobLookup:
        """The jobs, as callers see them."""
        from slotq_core.operations.jobs.lookup import JobLookup

        return JobLookup(self._store, self._clock, self.authorizer, self._scripts)

    @cached_property
    def _listener(self) -> Listener:
        from slotq_core.operations.scripts.listening import Listener

        return Listener(self._store.worlds, self._store.decisions, self._scripts)

    @cached_property
    def as_it_stands(self) -> AsItStands:
        """The whole queue, as callers see it."""
        from slotq_core.operations.jobs.as_it_stands import AsItStands

        return AsItStands(self._store, self._clock, self.authorizer, self.jobs)

    @cached_property
    def changes(self) -> Changes:
        """The users' verbs for a stored job."""
        from slotq_core.operations.jobs.changes import Changes
        from slotq_core.operations.resubmit import Resubmitter

        return Changes(
            self._store,
            self._clock,
            self.authorizer,
            self._effects,
            jobs=self.jobs,
            admitter=self._admitter,
            resubmitter=Resubmitter(self._store, self.submissions),
            wake=self._wake,
        )

    @cached_property
    def bulk(self) -> Bulk:
        """The users' verbs for many jobs in one call."""
        from slotq_core.operations.bulk import Bulk

        return Bulk(
            self._store.decisions,
            self._clock,
            decide=self.changes.decided,
            fulfil=self.changes.fulfilled,
            stop=self.changes.stop,
            wake=self._wake,
        )

    @cached_property
    def configuration(self) -> Configurator:
        """The operators' verbs."""
        from slotq_core.operations.configuring.configurator import Configurator

        return Configurator(
            self._store,
            self._clock,
            self._wake,
            permissions=self.authorizer.under,
            telling=self._telling,
        )

    @cached_property
    def usage(self) -> UsageReport:
        """What jobs have used."""
        from slotq_core.operations.usage.report import UsageReport

        return UsageReport(self._store.usage, self._clock)

    @cached_property
    def timeline(self) -> Timeline:
        """The attempts that held slots."""
        from slotq_core.operations.usage.timeline import Timeline

        return Timeline(self._store.usage, self._clock)

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

        The periodic work adds up what projects with a budget have spent and what was used on days
        that are over, reads the reports that decide something, audits the callers' counters and
        some of the stored lines, marks old history for removal, and reconciles if due. An error in
        one part does not stop the others.
        `budget` is in ms.
        """
        until = self._clock.now() + budget
        troubles, findings = [], []
        stand = None
        try:
            stand = self._store.configuration.read()
            self.count_spending(stand)
        except SlotQError as error:
            troubles.append(f"budgets: {error}")
        parts: tuple[tuple[str, Callable[[], object]], ...] = (
            ("reports", lambda: self.listen(stand)),
            ("limits", lambda: self._admitter.audit(stand)),
            ("groups", lambda: troubles.extend(self._finish_groups(until))),
            ("history", lambda: self._store.repair.expire(now=self._clock.now())),
            ("usage", lambda: self._day_sums.run_if_due(self._clock.now())),
        )
        for name, run in parts:
            try:
                run()
            except SlotQError as error:
                troubles.append(f"{name}: {error}")
        try:
            findings = self._reconciler.run_if_due(self._clock.now(), until=until)
        except SlotQError as error:
            troubles.append(f"reconciliation: {error}")
        try:
            findings = [*findings, *self._store.repair.audit(now=self._clock.now())]
        except SlotQError as error:
            troubles.append(f"audit: {error}")
        if findings:
            self._store.scheduler.bump()
        result = self.run_pass(holder=holder, budget=max(0, until - self._clock.now()))
        return replace(result, troubles=(*troubles, *result.troubles), findings=tuple(findings))

    def _finish_groups(self, until: int) -> tuple[str, ...]:
        """Finish the submissions of groups that other handlers have begun."""
        openings = self._store.groups.openings()
        return self.groups.finish(openings, until=until) if openings else ()

    def count_spending(self, stand: Configuration | None = None) -> None:
        """Add up what the projects with a budget have spent, so that passes know it. `stand`: the
        configuration, if it has just been read."""
        stand = stand or self._store.configuration.read()
        if any(project.budget for project in stand.sharing.projects):
            from slotq_core.operations.usage.month_sums import MonthSums

            MonthSums(self._store.usage, self._clock).count(stand, self._clock.now())

    def listen(self, stand: Configuration | None = None) -> None:
        """Read what scripts report where it decides something. `stand`: the configuration, if it
        has just been read."""
        stand = stand or self._store.configuration.read()
        if stand.group_decisions or any(pool.listens for pool in stand.pools):
            self._listener.listen(stand, self._clock.now())

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
        found += rights_report.examine(self._store.configuration, self._store.health, mend=fix)
        found += decisions_in_parts.examine(self._store.decisions, self._clock.now())
        until = began + DOCTOR_ENDS
        found += self._store.repair.inspect(mend=fix, time_left=lambda: until - self._clock.now())
        if fix and found:
            self._wake()
        return found

    def examine(self, *, fix: bool = False) -> list[Finding]:
        """Run `doctor` at most once a minute, because it reads everything. Looking and mending have
        separate turns. Raises ExaminedLately."""
        task, now = "mend" if fix else "examine", self._clock.now()
        if not self._store.scheduler.take_turn(task, now=now, next_at=now + EXAMINE_EVERY):
            due = self._store.scheduler.next_turn(task) or now
            left = max(1, -(-(due - now) // 1000))
            raise ExaminedLately(
                "the queue examines itself at most once a minute; ask again in "
                f"{units(left, 'seconds')}",
                retry_after=left,
            )
        return self.doctor(fix=fix)

    def limits(self, *, caller: str) -> LimitsStatus:
        """The limits, and what this caller has used."""
        stand = self._store.configuration.read()
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

    def longest_wait(self) -> int:
        """The time since the oldest waiting job entered (ms); 0 if none waits."""
        since = self._store.jobs.waiting_since()
        return 0 if since is None else max(0, self._clock.now() - since)

    def pools(self) -> list[PoolStatus]:
        """The pools in order, with their size, use and health."""
        now = self._clock.now()
        world = self._store.worlds.load(now)
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
        snapshot = self._store.worlds.load(now).snapshot
        return Sharers(
            held=held_by_projects(snapshot.active),
            standings=tuple(standings(snapshot, now)),
            budgets=budgets_of(snapshot, now),
        )

    def user_quotas(self, user: str | None) -> tuple[UserQuota, ...]:
        """What this user holds of the user's limits; None: all users."""
        from slotq_core.admission.user_quotas import user_quotas

        stand = self._store.configuration.read()
        snapshot = self._store.worlds.load(self._clock.now()).snapshot
        users = None if user is None else [user]
        return tuple(user_quotas(stand.sharing, snapshot.pools, snapshot.active, users))

    def project_metrics(self, *, most: int) -> Measured:
        """What projects hold, wait for and deserve: of `most` projects, and of all others together.
        Empty without projects, or if `most` is 0; then nothing is read."""
        sharing = self._store.configuration.read().sharing if most else NO_SHARING
        if not sharing.projects:
            return {}
        from slotq_core.operations.project_metrics import measured

        names = [each.name for each in sharing.projects]
        return measured(self.sharers().standings, names, most=most)

    def _wake(self) -> None:
        """Bump, and ask for a pass unless one is under way. The bump is what counts; the wake only
        makes a pass come soon.

        Whoever holds the lease sees the new generation before the lease ends, and decides once
        more. If the holder has died, nobody is asked until its lease has run out: the tick takes
        the lease then, as it finds a bump whose handler died before it could ask.
        """
        lease_ends = self._store.scheduler.bump()
        if lease_ends is None or lease_ends <= self._clock.now():
            self._notifier.wake()
