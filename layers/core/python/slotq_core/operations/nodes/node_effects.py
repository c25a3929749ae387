"""Carry out what is decided about nodes: intent -> call to SageMaker -> confirm, as for jobs.

The intent of a new node is its record without a confirmed create, the intent of a stop an order
that was not sent. Each is durable before its call, and any later handler repeats a dead handler's:
the name and the token of the training job are in the record.

A node starts for a job. If the job no longer waits for it, the node ends before its create. What
SageMaker answers to the create means for that job what the answer to its own create would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from slotq_core.errors import RightMissing, SlotQError, Unavailable
from slotq_core.lifecycle import copied
from slotq_core.model.attempts import Attempt, StopCause, StopOrder
from slotq_core.model.jobs import Job
from slotq_core.model.nodes import Node, NodeState
from slotq_core.model.pools import NodeRules, Pool
from slotq_core.model.snapshot import Snapshot
from slotq_core.operations.attempts.observing import Reads, failure, shown_text
from slotq_core.operations.attempts.pool_lessons import Lessons
from slotq_core.operations.effects import is_dead
from slotq_core.operations.nodes.ended_nodes import (
    EndedNodes,
    NodeEnding,
    OnNode,
    as_attempt,
    waits_for,
)
from slotq_core.operations.nodes.node_changes import ChangedNode, NodeChanges
from slotq_core.operations.nodes.node_news import NodeNews
from slotq_core.operations.nodes.node_steps import busy_nodes
from slotq_core.operations.nodes.node_stops import (
    READY_WITHIN,
    DueStop,
    due_stop,
    due_stops,
    is_over,
    with_stop,
)
from slotq_core.policy.lifecycle.apply import evicted
from slotq_core.policy.lifecycle.retry import Ending
from slotq_core.ports.nodes import NodeDocuments
from slotq_core.ports.store import Store
from slotq_core.ports.stored import Change, NodeChange
from slotq_core.ports.surroundings import Clock
from slotq_core.ports.training import CallResult, Request, TrainingService, Verdict
from slotq_core.privacy.redaction import without_secrets

Prescribed = Callable[[Job, Attempt, Reads], tuple[Request, str]]
"""Returns the request to start with, and what of it the job's project forbids."""

_REFUSALS = {Verdict.FAIL: Ending.REJECTED}


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeTask:
    """What is due for a node."""

    node: Node
    stop: DueStop | None = None
    """The stop that is to be ordered first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NodesCarriedOut:
    troubles: tuple[str, ...] = ()
    as_planned: bool = True
    """Whether every call was accepted, so that a plan that expects these nodes is still valid."""


class NodeEffects:
    """Calls SageMaker for nodes, and commits what follows from each answer."""

    def __init__(
        self,
        store: Store,
        training: TrainingService,
        clock: Clock,
        *,
        lessons: Lessons,
        ended: EndedNodes,
        prescribed: Prescribed,
        documents: NodeDocuments | None = None,
        order_leave: OnNode | None = None,
        take_report: OnNode | None = None,
    ) -> None:
        """`order_leave` writes the orders of a node that stops; without it SageMaker stops nodes at
        once. `take_report` takes in the last report that the node has written."""
        self._store, self._training, self._clock = store, training, clock
        self._lessons, self._ended, self._prescribed = lessons, ended, prescribed
        self._documents, self._order_leave = documents, order_leave
        self._take_report = take_report
        self._changes = NodeChanges(store)
        self.news = NodeNews(store, clock, lessons, ended)

    def due(self, snapshot: Snapshot) -> list[NodeTask]:
        """Return what is due for nodes: intents of dead handlers, stops whose time has come, nodes
        whose last job has ended, and silent nodes."""
        now = self._clock.now()
        stops = {stop.node: stop for stop in due_stops(snapshot, busy_nodes(snapshot.active), now)}
        return [
            NodeTask(node=node, stop=stops.get(node))
            for node in snapshot.nodes
            if node in stops or self._is_unfinished(node, now)
        ]

    def stale(self, nodes: Iterable[Node]) -> list[Node]:
        """Return the nodes whose intent belongs to a dead handler."""
        now = self._clock.now()
        return [node for node in nodes if _intends(node) and is_dead(_intent_at(node), now)]

    def take_effect(self, nodes: Sequence[Node], *, until: int | None = None) -> NodesCarriedOut:
        """Carry out the intents that were just committed."""
        return self.carry_out_all([NodeTask(node=node) for node in nodes], until=until)

    def carry_out_all(
        self, tasks: Sequence[NodeTask], *, until: int | None = None
    ) -> NodesCarriedOut:
        """Carry out these tasks one by one, the next in spite of a failure. After `until` (ms) the
        intents stay for a later pass."""
        troubles, as_planned = [], True
        for task in tasks:
            name = f"node {task.node.pool}/{task.node.name}"
            if until is not None and self._clock.now() >= until:
                troubles.append(f"{name}: no time left in this pass")
                continue
            try:
                as_planned &= self._carry_out(task)
            except SlotQError as error:
                troubles.append(f"{name}: {error}")
        return NodesCarriedOut(troubles=tuple(troubles), as_planned=as_planned and not troubles)

    def _carry_out(self, task: NodeTask) -> bool:
        """Returns whether everything went as a plan expects."""
        node: Node | None = task.node
        if task.stop is not None:
            node = self._ordered(task.stop)
        if node is None:
            return False
        if not node.created:
            return self._create_or_end(node)
        if node.state is NodeState.STOPPING:
            self._stop(node)
        return True

    def _ordered(self, stop: DueStop) -> Node | None:
        """Make the intent to stop the node durable. Returns the node; None: it does not stop."""
        node = stop.node
        if stop.silent and self._take_report is not None:
            self._take_report(node)
            found = self._changes.same(node)
            if found is None:
                return None
            busy = bool(self._store.nodes.jobs(found))
            again = due_stop(found, {}, self._clock.now(), busy=busy)
            if again is None or not again.silent:
                return None
            node = found
        after = with_stop(node, stop.order)
        change = NodeChange(before=node, after=after, empty=stop.empty)
        self._store.decisions.commit(self._evictions(stop, change), nodes=[change])
        if node.state is NodeState.STARTING:
            self._learn(node, stop.order)
        return copied(after, version=node.version + 1)

    def _evictions(self, stop: DueStop, change: NodeChange) -> list[Change]:
        """The evictions of the node's jobs that belong to its stop. Those that its transaction
        cannot hold are committed before: nobody comes to a node that drains."""
        if not stop.evicts:
            return []
        left = [
            Change(before=job, after=evicted(job, stop.order.by, stop.order.at))
            for job in self._ended.jobs_on(stop.node)
            if job.attempt is not None and job.attempt.stop is None
        ]
        decisions = self._store.decisions
        while len(left) > 1 and (count := decisions.fitting(left, nodes=[change])) < len(left):
            decisions.commit(left[:count])
            left = left[count:]
        return left

    def _learn(self, node: Node, order: StopOrder) -> None:
        """Record why a node did not become ready in time, before the next plan starts another."""
        if order.cause is StopCause.STALLED:
            late = f"its agent was not ready within {READY_WITHIN // 60_000} minutes"
            message = "its agent fell silent before it was ready" if node.reports else late
            self._lessons.of_failed_agent(node, self._ended.image(node), message)
        elif order.cause is StopCause.NO_CAPACITY:
            message = f"pool {node.pool} had no instances for node {node.name} in time"
            self._lessons.of_missing_instances(node.pool, message)

    # --- create ---

    def _create_or_end(self, node: Node) -> bool:
        """Create the training job, unless nobody needs the node any more."""
        stale = is_dead(_intent_at(node), self._clock.now())
        if node.state is NodeState.STOPPING and not stale:
            return True  # The create is in progress; the handler that confirms it also stops it.
        job = self._store.jobs.get(node.started_for)
        pool = self._store.health.pool(node.pool)
        rules = pool.nodes if pool is not None else None
        needed = node.state is not NodeState.STOPPING and job is not None and waits_for(job, node)
        if job is None or pool is None or rules is None or not needed:
            return self._end_uncreated(node, stale=stale)
        return self._create(node, job, pool, rules, stale=stale)

    def _create(self, node: Node, job: Job, pool: Pool, rules: NodeRules, *, stale: bool) -> bool:
        if self._documents is None:
            raise Unavailable("this deployment has no bucket for the documents of nodes")
        attempt, reads = as_attempt(node, job, pool), Reads(self._store)
        request, broken = self._prescribed(job, attempt, reads)
        if broken:
            if stale and self._is_there(node):
                return self._confirm(node, job)
            shown = shown_text(job.name, broken, reads)
            self._ended.end(node, NodeEnding(of_job=lambda _: Ending.FORBIDDEN, message=shown))
            return False
        launch = self._documents.launch(node, rules)
        answer = self._training.create_node(request, node, launch, instance_type=pool.instance_type)
        match answer.verdict:
            case Verdict.OK | Verdict.ALREADY_DONE:
                return self._confirm(node, job)
            case Verdict.RETRY:  # The intent stays; a later pass repeats the call.
                said = without_secrets(answer.message, request)
                if answer.action:
                    self._lessons.unanswered(attempt, copied(answer, message=said))
                    raise RightMissing(said)
                raise Unavailable(f"CreateTrainingJob {node.training_job}: {said}")
        message = shown_text(job.name, answer.message, reads)
        self._ended.end(node, _refused(answer, message))
        return False

    def _confirm(self, node: Node, job: Job) -> bool:
        """Confirm the create. An end during the call leaves the stop to this handler."""
        confirmed = self._changes.one(node, _created)
        if confirmed is not None:
            self._lessons.of_accepted_node(node.pool, job.role)
        return self._goes_on(confirmed)

    def _goes_on(self, confirmed: ChangedNode | None) -> bool:
        """Stop the node if that was decided meanwhile. Returns whether it goes on."""
        if confirmed is not None and confirmed.after.state is NodeState.STOPPING:
            self._stop(confirmed.after)
            return False
        return confirmed is not None

    def _end_uncreated(self, node: Node, *, stale: bool) -> bool:
        """End a node that nobody waits for. A dead handler may have created its training job: then
        the node goes on, or is stopped if that was decided."""
        if stale and self._is_there(node):
            self._goes_on(self._changes.one(node, _created))
            return False
        self._ended.end(node, NodeEnding(message="nobody waits for it any more"))
        return False

    def _is_there(self, node: Node) -> bool:
        """Whether an unconfirmed create took effect."""
        there = self._training.look_into(node.training_job, now=self._clock.now())
        return there is not None and there.ours

    # --- stop ---

    def _stop(self, node: Node) -> None:
        assert node.stop is not None
        if node.stop.sent:
            return
        if self._order_leave is not None and not is_over(node, self._clock.now()):
            self._order_leave(node)
            return
        answer = self._training.stop(node.training_job)
        match answer.verdict:
            case Verdict.OK:
                self._changes.one(node, _sent)
            case Verdict.ALREADY_DONE:
                self._changes.one(node, _sent)
                self._look(node)
            case Verdict.FAIL:
                # No such training job: somebody deleted it.
                self._ended.end(node, NodeEnding(message=answer.message))
            case Verdict.NO_RIGHTS:
                raise RightMissing(answer.message)
            case _:  # The intent stays here, too.
                raise Unavailable(f"StopTrainingJob {node.training_job}: {answer.message}")

    def _look(self, node: Node) -> None:
        """Ask SageMaker for the training job's state: its end may have been missed."""
        seen = self._training.describe(node.training_job)
        if seen is not None:
            self.news.observe(node.pool, node.name, seen)

    def _is_unfinished(self, node: Node, now: int) -> bool:
        """Whether an intent waits for this pass."""
        if not _intends(node):
            return False
        if node.created and node.stop is not None and node.stop.grace_until is not None:
            return is_over(node, now)
        return is_dead(_intent_at(node), now)


def _refused(answer: CallResult, message: str) -> NodeEnding:
    """A refused create. The answer means for the job what the answer to its own create would, but
    for a name that is taken: the next node has another one."""

    def of_job(attempt: Attempt) -> Ending:
        return _REFUSALS.get(answer.verdict) or failure(answer.verdict, answer.quota, attempt)

    taken = answer.verdict is Verdict.NAME_TAKEN
    return NodeEnding(message=message, of_job=None if taken else of_job, answer=answer)


def _created(node: Node) -> Node | None:
    return None if node.created else copied(node, created=True)


def _sent(node: Node) -> Node | None:
    if node.stop is None or node.stop.sent:
        return None
    return copied(node, created=True, stop=copied(node.stop, sent=True))


def _intends(node: Node) -> bool:
    """Whether the node has an intent: a create or a stop that nobody has confirmed."""
    stopping = node.state is NodeState.STOPPING and node.stop is not None and not node.stop.sent
    return not node.created or stopping


def _intent_at(node: Node) -> int:
    """When (ms) the intent's call was due."""
    if node.state is not NodeState.STOPPING or node.stop is None:
        return node.started_at
    return node.stop.at if node.stop.grace_until is None else node.stop.grace_until
