"""The queue manager that the Lambda, the emulator and the simulator run.

The conditions of the commits alone guarantee correctness, so any number of managers may work at
once. After a conflict a manager loads again. Passes make the decisions (`passes`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from slotq_core.admission.roles_and_plans import ANY_PLAN, ANY_ROLE, ExecutionRoles, TrainingPlans
from slotq_core.errors import NotUnderstood
from slotq_core.model.notices import CallbackKind, NotificationMode
from slotq_core.operations.admit import Admitter
from slotq_core.operations.attempts.observing import Observed
from slotq_core.operations.attempts.suspends import Suspends
from slotq_core.operations.effects import Effects
from slotq_core.operations.overview import Overview
from slotq_core.operations.passes import PASS_BUDGET, Passes, PassResult, Poisons
from slotq_core.operations.periodic import PeriodicWork
from slotq_core.operations.reconcile import Reconciler
from slotq_core.ports.scripts import NoScripts, Scripts
from slotq_core.ports.store import Store
from slotq_core.ports.surroundings import (
    Clock,
    DeadLetters,
    DiscardDeadLetters,
    InParallel,
    Notifier,
    one_by_one,
)
from slotq_core.ports.training import Observation, SageMakerService

if TYPE_CHECKING:
    from slotq_core.operations.authorize import Authorizer
    from slotq_core.operations.bulk import Bulk
    from slotq_core.operations.callbacks.answering import Answering
    from slotq_core.operations.configuring.configurator import Configurator
    from slotq_core.operations.doctor import Doctor
    from slotq_core.operations.jobs.batches import Batches
    from slotq_core.operations.jobs.changes import Changes
    from slotq_core.operations.jobs.group_lookup import GroupLookup
    from slotq_core.operations.jobs.groups import GroupsOfJobs
    from slotq_core.operations.jobs.lookup import JobLookup
    from slotq_core.operations.jobs.queue_snapshots import QueueSnapshots
    from slotq_core.operations.jobs.submissions import Submissions
    from slotq_core.operations.nodes.reading import NodeReading
    from slotq_core.operations.usage.report import UsageReport
    from slotq_core.operations.usage.timeline import Timeline
    from slotq_core.ports.callbacks import Answers
    from slotq_core.ports.nodes import NodeDocuments


class QueueManager:
    """The queue's reactions, on the ports, and its parts for what users ask."""

    def __init__(
        self,
        *,
        store: Store,
        training: SageMakerService,
        clock: Clock,
        notifier: Notifier,
        dead_letters: DeadLetters | None = None,
        roles: ExecutionRoles = ANY_ROLE,
        plans: TrainingPlans = ANY_PLAN,
        operators: tuple[str, ...] = (),
        scripts: Scripts | None = None,
        notification_mode: NotificationMode = NotificationMode.OFF,
        at_once: InParallel = one_by_one,
        documents: NodeDocuments | None = None,
        new_token: Callable[[], str] | None = None,
        callback_kinds: frozenset[CallbackKind] = frozenset(),
        answers: Callable[[], Answers] | None = None,
    ) -> None:
        """`roles` and `plans` are the execution roles and training plans that training jobs may
        use. `operators`: patterns of callers that no configuration can remove. Without `scripts` no
        script is asked to release its slots: jobs are stopped at once. `notification_mode`: whether
        this deployment sends notifications. `at_once` stores several members of a group at once;
        the store uses another one. `documents`: those of nodes; without them no node starts.
        `new_token` makes the secret token of a node; None: by chance. `callback_kinds`: who may
        wait for a job's end here. `answers` makes what tells them, where ticks run."""
        self._callback_kinds, self._answers = callback_kinds, answers
        self._notification_mode, self._at_once = notification_mode, at_once
        self._roles = roles
        self._plans = plans
        self._scripts = scripts or NoScripts()
        self._store = store
        self._training = training
        self._clock = clock
        self._notifier = notifier
        suspends = Suspends(store.jobs, self._scripts, notifier, clock)
        self._effects = Effects(
            store, training, clock, suspends, self._scripts, at_once=at_once, documents=documents
        )
        self._reconciler = Reconciler(store, training, clock, self._effects, at_once=at_once)
        self._poisons = Poisons(store.repair, dead_letters or DiscardDeadLetters())
        self.passes = Passes(
            store=store,
            clock=clock,
            notifier=notifier,
            effects=self._effects,
            poisons=self._poisons,
            new_token=new_token,
        )
        self._admitter = Admitter(store, clock)
        self._operators = operators
        self.overview = Overview(store, clock, self._admitter)
        self.periodic = PeriodicWork(
            store,
            clock,
            self._scripts,
            admitter=self._admitter,
            reconciler=self._reconciler,
            finish_groups=self._finish_groups,
            nodes=self._node_reading() if documents else None,
            answer_callbacks=self._answer_callbacks if callback_kinds and answers else None,
        )

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
            answers=self._callback_kinds,
        )

    @cached_property
    def batches(self) -> Batches:
        """The users' verb for many new jobs in one call."""
        from slotq_core.operations.jobs.batches import Batches

        return Batches(self._store, self._clock, self.submissions, wake=self._wake)

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
    def queue_snapshots(self) -> QueueSnapshots:
        """The whole queue, as callers see it."""
        from slotq_core.operations.jobs.queue_snapshots import QueueSnapshots

        return QueueSnapshots(self._store, self._clock, self.authorizer, self.jobs)

    @cached_property
    def changes(self) -> Changes:
        """The users' verbs for a stored job."""
        from slotq_core.operations.jobs.changes import Changes
        from slotq_core.operations.jobs.submissions import Resubmitter

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
            apply=self.changes.apply,
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
            notification_mode=self._notification_mode,
            roles=self._roles,
            plans=self._plans,
            training=self._training,
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

    @cached_property
    def doctor(self) -> Doctor:
        """What examines everything, for people."""
        from slotq_core.operations.doctor import Doctor

        return Doctor(
            self._store, self._reconciler, self._clock, self._wake, training=self._training
        )

    def observe(self, observation: Observation) -> Observed:
        """Take in one training event. Events may repeat and arrive in any order.

        Neither bumps nor runs a pass: where the event calls for a pass, `passes.run` with
        `bump` does both. If the handler dies in between, the tick runs the pass.
        """
        try:
            return self._effects.observing.observe(observation)
        except NotUnderstood as error:
            self._poisons.report("job", observation.training_job, str(error))
            return Observed(ignored=str(error))

    def tick(self, *, holder: str = "here", budget: int = PASS_BUDGET) -> PassResult:
        """Run the periodic work, for half of the budget (ms) at most, so that no start waits for
        it; then a pass."""
        until = self._clock.now() + budget
        troubles, findings = self.periodic.run(until=until - budget // 2)
        if findings:
            self._store.scheduler.bump()
        result = self.passes.run(
            holder=holder, budget=max(0, until - self._clock.now()), looks=True
        )
        return replace(result, troubles=(*troubles, *result.troubles), findings=tuple(findings))

    def _node_reading(self) -> NodeReading:
        # Most queues keep no nodes, and no cold start should pay for them.
        from slotq_core.operations.nodes.reading import NodeReading

        return NodeReading(
            self._store, self._clock, lambda: self._effects.node_services.reports, self._wake
        )

    def _finish_groups(self, until: int) -> tuple[str, ...]:
        """Finish the submissions of groups that other handlers have begun."""
        openings = self._store.groups.openings()
        return self.groups.finish(openings, until=until) if openings else ()

    def _answer_callbacks(self, until: int) -> tuple[str, ...]:
        """Answer those who wait for jobs' ends."""
        return self._answering.run(until=until)

    @cached_property
    def _answering(self) -> Answering:
        from slotq_core.operations.callbacks.answering import Answering

        assert self._answers is not None
        return Answering(
            self._store,
            self._answers(),
            self._clock,
            self._training,
            self._effects,
            wake=self._wake,
            at_once=self._at_once,
        )

    def _wake(self) -> None:
        """Bump, and ask for a pass unless one is under way. The bump is what counts; the wake only
        makes a pass come soon.

        The holder of the lease sees the new generation before the lease ends, and decides once
        more. If the holder has died, the tick takes the lease after its end, as it does for a bump
        whose handler died before waking a pass.
        """
        lease_ends = self._store.scheduler.bump()
        if lease_ends is None or lease_ends <= self._clock.now():
            self._notifier.wake()
