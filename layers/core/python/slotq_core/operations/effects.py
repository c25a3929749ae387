"""Carry out committed decisions: intent -> call to SageMaker -> confirm.

An intent is durable before its call: `starting` without a confirmed create, or `stopping` without a
sent stop. Therefore any later handler can finish the intent. Names and tokens are deterministic, so
a repeated create is recognised as the queue's own, and a repeated stop as already done. A fresh
intent is left to the handler that committed it. An intent older than `HANDLER_LIFETIME` belongs to
a dead handler.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from slotq_core.errors import (
    RightMissing,
    SlotQError,
    Unavailable,
)
from slotq_core.model.attempts import Attempt
from slotq_core.model.jobs import Job, JobState
from slotq_core.operations.attempts.attempt_changes import (
    AttemptChanges,
    Changed,
    Wanted,
)
from slotq_core.operations.attempts.observing import (
    Observed,
    Observing,
    Reads,
    failure,
    shown_text,
)
from slotq_core.operations.attempts.pool_lessons import Lessons
from slotq_core.operations.attempts.start_requests import StartRequests
from slotq_core.operations.attempts.suspends import Suspends, intent_at
from slotq_core.policy.lifecycle.apply import Step, not_started
from slotq_core.policy.lifecycle.retry import Ending
from slotq_core.ports.scripts import Scripts
from slotq_core.ports.store import Store
from slotq_core.ports.stored import Change
from slotq_core.ports.surroundings import Clock, InParallel, one_by_one
from slotq_core.ports.training import (
    CallResult,
    Observation,
    Request,
    SageMakerService,
    TrainingService,
    Verdict,
)
from slotq_core.privacy.redaction import without_secrets
from slotq_core.timestamps import FAR_OFF

if TYPE_CHECKING:
    from slotq_core.model.nodes import Node
    from slotq_core.model.snapshot import Snapshot
    from slotq_core.operations.attempts.warm_slots import WarmSlots
    from slotq_core.operations.nodes.node_effects import NodeEffects
    from slotq_core.operations.nodes.node_training import NodeServices, NodeTraining
    from slotq_core.operations.training_plans.looks import LookedAt
    from slotq_core.ports.nodes import NodeDocuments

HANDLER_LIFETIME = 60_000
"""Upper bound (ms) on a handler's life. The function's timeout in template.yaml must not exceed it.
"""

TAKEN_BACK_WITHIN = HANDLER_LIFETIME * 3 // 4
"""Age (ms) of an intent until which its own handler may take it back: well before others may carry
it out."""

LONGEST_EFFECT = 10_000
"""Age (ms) at which an effect makes no further call. Its intent stays, and a later pass
continues."""

SLOW = 5_000
"""Duration (ms) from which an effect is reported as slow and runs last from then on."""

CONFIRM_WITHIN = 1_000
"""How long (ms) a call's confirmation waits for those of further calls. SageMaker's first event of
a training job comes later than that, so it changes no job whose confirmation waits."""

MOST_UNCONFIRMED = 40
"""Most confirmations that wait; one transaction holds as many."""

_REFUSALS = {Verdict.FAIL: Ending.REJECTED, Verdict.NAME_TAKEN: Ending.NAME_TAKEN}
"""The ending of an attempt whose create is refused permanently: no retry helps."""


_NO_NODES = "this deployment keeps no nodes: its stack has no bucket for them"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Called:
    """A call that SageMaker has accepted, or what its refusal has shown."""

    job: Job
    confirms: Wanted | None = None
    """The change that confirms the call, to be committed; None: everything is committed."""
    is_start: bool = False
    """Whether this was an accepted create."""
    closes: bool = False
    """Whether the refusal has shown something new about the pool."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CarriedOut:
    """The outcome of the intents of several jobs."""

    troubles: tuple[str, ...] = ()
    """Errors, and slow calls."""
    as_planned: bool = True
    """Whether every job was started and nothing else happened, so that a plan that expects these
    starts is still valid."""
    untried: tuple[Job, ...] = ()
    """Starts that were committed ahead of their creates, and left after a failure, or without
    time."""


class Effects:
    """Calls SageMaker, and commits the consequences of each answer for the job."""

    def __init__(
        self,
        store: Store,
        training: SageMakerService,
        clock: Clock,
        suspends: Suspends,
        scripts: Scripts | None = None,
        *,
        at_once: InParallel = one_by_one,
        documents: NodeDocuments | None = None,
    ) -> None:
        """`at_once` commits to several pools at once; the store uses another one. `documents`: of
        the nodes; None: this deployment keeps none."""
        self._store = store
        self._documents = documents
        self._training = training
        self._clock = clock
        self._suspends = suspends
        self._lessons = Lessons(store.configuration, store.health, clock)
        self._changes = AttemptChanges(store, self._lessons, at_once)
        self.observing = Observing(
            store, training, clock, self._changes, scripts, observe_node=self._observe_node
        )
        self._requests = StartRequests(store, clock)
        self._at_once = at_once
        self._node_services: NodeServices | None = None
        self._slow: dict[str, int] = {}
        """Duration (ms) of the latest effect, for each job whose latest effect was slow. Kept by
        this process only. The table stays small, because each entry costs SLOW."""

    @cached_property
    def nodes(self) -> NodeEffects:
        """The effects of decisions about nodes."""
        # Most queues have no nodes, and no cold start should pay for them.
        from slotq_core.operations.nodes.ended_nodes import EndedNodes
        from slotq_core.operations.nodes.node_effects import NodeEffects

        ended = EndedNodes(
            self._store,
            self._clock,
            self._lessons,
            end_job=self.observing.end,
            take_report=self._take_report if self._documents else None,
        )
        return NodeEffects(
            self._store,
            self._training,
            self._clock,
            lessons=self._lessons,
            ended=ended,
            prescribed=self._requests.prescribed,
            documents=self._documents,
            order_leave=self._order_leave if self._documents else None,
            take_report=self._take_report if self._documents else None,
        )

    @cached_property
    def warm(self) -> WarmSlots:
        """The effects of decisions about warm instances."""
        # Most queues have none, and no cold start should pay for them.
        from slotq_core.operations.attempts.warm_slots import WarmSlots

        return WarmSlots(
            self._store,
            self._training,
            self._clock,
            note_no_quota=self._lessons.of_no_warm_quota,
        )

    def look_at_plans(self, snapshot: Snapshot, *, until: int) -> LookedAt:
        """Read the training plans of the pools that have one."""
        # Most queues have none, and no cold start should pay for them.
        from slotq_core.operations.training_plans.looks import look

        return look(snapshot, self._training, self._store.health, self._clock, until=until)

    def _order_leave(self, node: Node) -> None:
        self.node_services.orders.write(node)

    def _take_report(self, node: Node) -> None:
        self.node_services.reports.take_in(node)

    def _observe_node(self, pool: str, name: str, seen: Observation) -> Observed:
        return self.nodes.news.observe(pool, name, seen)

    def stale(self, jobs: Iterable[Job]) -> list[Job]:
        """Return the jobs whose intent belongs to a dead handler."""
        now = self._clock.now()
        return [job for job in jobs if _unfinished(job) and is_dead(_intent_at(job), now)]

    def due(self, jobs: Iterable[Job]) -> list[Job]:
        """Return the jobs whose intents this pass carries out: those of dead handlers, also of a
        handler that may have died before asking the script, and stops whose grace is over."""
        now = self._clock.now()
        return [
            job
            for job in jobs
            if _unfinished(job)
            and (
                (is_dead(_ordered_at(job), now) and not self._suspends.has_asked(job))
                or self._suspends.is_over(job)
            )
        ]

    def is_slow(self, job: Job) -> bool:
        """Whether the job's latest effect was slow. Slow effects run last."""
        return job.name in self._slow

    def carry_out(self, job: Job) -> None:
        """Make the call that the job's live attempt still needs, if any."""
        if called := self._call(job, self._work([job])):
            self._confirmed(called, self._changes.one(called.confirms) if called.confirms else None)

    def carry_out_all(
        self, jobs: Iterable[Job], *, until: int | None = None, ahead: bool = False
    ) -> CarriedOut:
        """Make the calls that these jobs' live attempts still need, one after the other, slow jobs
        last; begin none from `until` on. Calls are confirmed together, soon after each.

        A failure stops no other job: its intent stays, and a later pass finishes the work. `ahead`:
        this handler has committed the jobs just now. Then a failed create leaves further starts
        untried, of jobs in no group: all of them if SageMaker did not answer, else those in the
        pool that it closes.
        """
        jobs = sorted(jobs, key=lambda job: self._slow.get(job.name, 0))
        done = _Done()
        work = self._work(jobs)
        for job in jobs:
            late = until is not None and self._clock.now() >= until
            if ahead and work.may_be_left(job) and (late or done.leaves(job)):
                done.untried.append(job)
                continue
            if late:
                done.fails(f"{job.name}: no time left in this pass")
                continue
            try:
                called = self._call(job, work)
            except SlotQError as error:
                unanswered = _needs_create(job) and not _is_on_node(job)
                done.fails(f"{job.name}: {error}", unanswered=unanswered)
            else:
                done.takes(called, self._clock.now())
            if took := self._slow.get(job.name):
                done.troubles.append(
                    f"{job.name}: the call took {took / 1000:.1f} s; the job goes last from now on"
                )
            if done.is_to_be_confirmed(self._clock.now()):
                self._confirm(done)
        self._confirm(done)
        return CarriedOut(
            troubles=tuple(done.troubles),
            as_planned=done.as_planned and not done.untried,
            untried=tuple(done.untried),
        )

    @property
    def node_services(self) -> NodeServices:
        """What is done by the documents of nodes. Raises Unavailable if this deployment keeps
        none."""
        if self._documents is None:
            raise Unavailable(_NO_NODES)
        if self._node_services is None:
            # Most queues have no nodes, and no cold start should pay for them.
            from slotq_core.operations.nodes.node_training import NodeServices

            self._node_services = NodeServices(
                self._store,
                self._documents,
                self._clock,
                observing=self.observing,
                requests=self._requests,
                at_once=self._at_once,
            )
        return self._node_services

    def _work(self, jobs: Sequence[Job]) -> _Work:
        """Prepare the calls for these jobs, which are as they were committed."""
        on_nodes = [job for job in jobs if _is_on_node(job)]
        found = self.node_services.trainings(on_nodes) if on_nodes and self._documents else {}
        reads = Reads(self._store, [job.name for job in jobs if _needs_create(job)])
        return _Work(reads=reads, on_nodes=found)

    def _call(self, job: Job, work: _Work) -> _Called | None:
        began = self._clock.now()
        try:
            return self._do(job, began, work)
        finally:
            took = self._clock.now() - began
            self._slow.pop(job.name, None)
            if took >= SLOW:
                self._slow[job.name] = took

    def _confirm(self, done: _Done) -> None:
        """Commit the confirmations that wait."""
        calls, done.calls = done.calls, []
        outcomes = self._changes.all([called.confirms for called in calls if called.confirms])
        for called, outcome in zip(calls, outcomes, strict=True):
            try:
                if isinstance(outcome, SlotQError):
                    raise outcome
                done.as_planned &= self._confirmed(called, outcome)
            except SlotQError as error:
                done.fails(f"{called.job.name}: {error}")

    def _confirmed(self, called: _Called, outcome: Changed | None) -> bool:
        """What follows from a confirmation. Returns whether it was the start that was planned, and
        has shown nothing new about the pool."""
        if outcome is None or not called.is_start:
            return False
        if outcome.job.attempt and outcome.job.attempt.stop:
            # A cancel during the call leaves the stop to this handler.
            self.carry_out(outcome.job)
            return False
        return not outcome.learned

    def take_back(self, steps: Sequence[Step]) -> None:
        """Give these untried starts their places back, as if they had never started. Whoever has
        been changed meanwhile, or may be tried by another handler, stays as it is."""

        def wanted(before: Job, after: Job) -> Wanted:
            assert after.attempt is not None
            return Wanted(
                job=after,
                training_job=after.attempt.training_job,
                change=lambda job: self._untried(job, before, after),
            )

        self._changes.all([wanted(before, after) for before, after in steps])

    def _untried(self, job: Job, before: Job, after: Job) -> Change | None:
        restored = not_started(job, before, after)
        if restored is None or self._clock.now() - _intent_at(job) >= TAKEN_BACK_WITHIN:
            return None
        return Change(before=job, after=restored)

    def _do(self, job: Job, began: int, work: _Work) -> _Called | None:
        """Make the call that is still needed. None: none was needed, or its refusal is
        committed."""
        if job.attempt is None:
            return None
        if _needs_create(job):
            return self._create(job, job.attempt, work)
        if job.attempt.stop is None or job.attempt.stop.sent:
            return None
        node = work.on_node(job.attempt)
        if not self._suspends.in_grace(job, job.attempt, ask=node.suspend if node else None):
            return self._stop(job, job.attempt, began, node or self._training)
        return None

    def _is_late(self, began: int) -> bool:
        return self._clock.now() - began >= LONGEST_EFFECT

    def _create(self, job: Job, attempt: Attempt, work: _Work) -> _Called | None:
        training = work.on_node(attempt) or self._training
        request, broken = self._requests.prescribed(job, attempt, work.reads)
        if broken and not self._was_created(job, attempt, training):
            self._forbidden(job, attempt, broken)
            return None
        complete = self._requests.as_member(request, job, attempt)
        answer = training.create(complete, job, attempt)
        match answer.verdict:
            case Verdict.OK | Verdict.ALREADY_DONE:
                place = checkpoints_of(request)
                key = _warm_key(attempt, complete)
                if answer.kept_none:
                    self._lessons.of_no_warm_quota(attempt.pool)
                confirms = Wanted(
                    job=job,
                    training_job=attempt.training_job,
                    change=lambda current: self.observing.created(
                        current, place, warm_key=key, kept_none=answer.kept_none
                    ),
                )
                return _Called(job=job, confirms=confirms, is_start=True)
            case Verdict.RETRY:  # The intent stays; a later pass repeats the call.
                said = without_secrets(answer.message, request)
                if answer.action:
                    self._lessons.unanswered(attempt, replace(answer, message=said))
                    raise RightMissing(said)
                raise Unavailable(f"CreateTrainingJob {attempt.training_job}: {said}")
            case _:
                taken = self._refused(job, attempt, answer)
                return _Called(job=job, closes=taken is not None and taken.learned)

    def _was_created(self, job: Job, attempt: Attempt, training: TrainingService) -> bool:
        """Whether a dead handler may have created the training job, under the rules of that time: a
        training job of that name exists. A repeated create then starts nothing, and its answer
        shows the owner of the name."""
        if not is_dead(_intent_at(job), self._clock.now()):
            return False
        return training.describe(attempt.training_job) is not None

    def _forbidden(self, job: Job, attempt: Attempt, broken: str) -> None:
        """End an attempt before its create: the job is held."""
        now, message = self._clock.now(), shown_text(job.name, broken, Reads(self._store))
        self._changes.one(
            Wanted(
                job=job,
                training_job=attempt.training_job,
                change=lambda current: self.observing.end(current, Ending.FORBIDDEN, now, message),
            )
        )

    def _refused(self, job: Job, attempt: Attempt, answer: CallResult) -> Changed | None:
        ending = _REFUSALS.get(answer.verdict) or failure(answer.verdict, answer.quota, attempt)
        message = shown_text(job.name, answer.message, Reads(self._store))
        return self._changes.one(
            Wanted(
                job=job,
                training_job=attempt.training_job,
                change=lambda current: self.observing.end(
                    current, ending, self._clock.now(), message, quota=answer.quota
                ),
                answer=answer,
            )
        )

    def _stop(
        self, job: Job, attempt: Attempt, began: int, training: TrainingService
    ) -> _Called | None:
        stale = is_dead(_intent_at(job), self._clock.now())
        if not attempt.created and not stale:
            return None  # The create is in progress; the handler that confirms it also stops it.
        if not attempt.created and not self._is_there(attempt, training):
            message = f"its training job {attempt.training_job} does not run"
            self._changes.one(self.observing.gone(job, attempt.training_job, message))
            return None
        if self._is_late(began):
            return None
        answer = training.stop(attempt.training_job)
        sent = Wanted(job=job, training_job=attempt.training_job, change=self._stop_sent)
        match answer.verdict:
            case Verdict.OK:
                return _Called(job=job, confirms=sent)
            case Verdict.ALREADY_DONE:
                self._changes.one(sent)
                if not self._is_late(began):  # Otherwise a reconciliation will look.
                    self._look(attempt.training_job)
            case Verdict.FAIL:
                # No such training job: it was never created, or somebody deleted it.
                self._changes.one(self.observing.gone(job, attempt.training_job, answer.message))
            case Verdict.NO_RIGHTS:
                raise RightMissing(answer.message)
            case _:  # The intent stays here, too.
                raise Unavailable(f"StopTrainingJob {attempt.training_job}: {answer.message}")
        return None

    def _is_there(self, attempt: Attempt, training: TrainingService) -> bool:
        """Whether an unconfirmed create took effect. The name may by now belong to a training job
        of somebody else, which the queue must not stop."""
        there = training.look_into(attempt.training_job, now=self._clock.now())
        return there is not None and there.ours

    def _look(self, training_job: str) -> None:
        """Ask SageMaker for the training job's state: its end may have been missed."""
        try:
            seen = self._training.describe(training_job)
        except Unavailable:
            return
        if seen is not None:
            self.observing.observe(seen)

    def _stop_sent(self, job: Job) -> Change | None:
        assert job.attempt is not None
        stop = job.attempt.stop
        if stop is None or stop.sent:
            return None
        attempt = replace(job.attempt, created=True, stop=replace(stop, sent=True))
        return Change(before=job, after=replace(job, attempt=attempt))


@dataclass(frozen=True, kw_only=True, slots=True)
class _Work:
    """What the calls for several jobs share."""

    reads: Reads
    on_nodes: Mapping[str, NodeTraining]
    """By training job."""

    def on_node(self, attempt: Attempt) -> NodeTraining | None:
        """Return the service of an attempt on a node; None: it has instances of its own. Raises
        Unavailable if this deployment keeps no nodes."""
        if attempt.node and attempt.training_job not in self.on_nodes:
            raise Unavailable(_NO_NODES)
        return self.on_nodes.get(attempt.training_job)

    def may_be_left(self, job: Job) -> bool:
        """Whether the job's start may be left untried: nothing of it, or of its group, can have
        begun."""
        if not _needs_create(job) or job.group:
            return False
        node = self.on_nodes.get(job.attempt.training_job) if job.attempt else None
        return node is None or not node.is_tried


@dataclass(kw_only=True, slots=True)
class _Done:
    """What has been done of the intents of several jobs."""

    troubles: list[str] = field(default_factory=list)
    as_planned: bool = True
    untried: list[Job] = field(default_factory=list)
    calls: list[_Called] = field(default_factory=list)
    """The calls whose confirmations wait."""
    since: int = 0
    """When the first of them was made (ms)."""
    unanswered: bool = False
    """Whether SageMaker has not answered a create."""
    closed: set[str] = field(default_factory=set)
    """The pools that a refused create has closed."""

    def fails(self, trouble: str, *, unanswered: bool = False) -> None:
        self.troubles.append(trouble)
        self.as_planned = False
        self.unanswered |= unanswered

    def takes(self, called: _Called | None, now: int) -> None:
        if called is None or called.confirms is None:
            self.as_planned = False
        else:
            self.since = self.since if self.calls else now
            self.calls.append(called)
        if called is not None and called.closes and called.job.attempt is not None:
            self.closed.add(called.job.attempt.pool)

    def leaves(self, job: Job) -> bool:
        """Whether the job's create would fail, too. One on a node needs nothing of SageMaker."""
        if _is_on_node(job):
            return False
        return self.unanswered or (job.attempt is not None and job.attempt.pool in self.closed)

    def is_to_be_confirmed(self, now: int) -> bool:
        waits = now - self.since
        return bool(self.calls) and (
            len(self.calls) >= MOST_UNCONFIRMED or not 0 <= waits < CONFIRM_WITHIN
        )


def _warm_key(attempt: Attempt, request: Request) -> str:
    """The key of the request as it was sent: a project's rules may have changed since admission."""
    if not attempt.warm_key:
        return ""
    from slotq_core.wire.training.warm_keys import warm_key  # Few jobs keep instances warm.

    return warm_key(request)


def checkpoints_of(request: Request) -> str:
    """The S3 URI of the request's checkpoints; empty if it has none."""
    config = request.get("CheckpointConfig")
    place = config.get("S3Uri") if isinstance(config, Mapping) else None
    return place if isinstance(place, str) else ""


def _needs_create(job: Job) -> bool:
    return job.state is JobState.STARTING and job.attempt is not None and not job.attempt.created


def _is_on_node(job: Job) -> bool:
    return job.attempt is not None and bool(job.attempt.node)


def _unfinished(job: Job) -> bool:
    assert job.attempt is not None
    if job.attempt.stop is not None:
        return not job.attempt.stop.sent
    return not job.attempt.created


def is_dead(intent_at: int, now: int) -> bool:
    """Whether the handler of an intent of that time has ended, or the handler's clock was wrong."""
    return not now - HANDLER_LIFETIME < intent_at <= now + FAR_OFF


def _intent_at(job: Job) -> int:
    assert job.attempt is not None
    return intent_at(job.attempt.stop) if job.attempt.stop else job.attempt.admitted_at


def _ordered_at(job: Job) -> int:
    assert job.attempt is not None
    return job.attempt.stop.at if job.attempt.stop else job.attempt.admitted_at
