"""Carry out what is decided about nodes: intent -> call to SageMaker -> confirm, as for jobs.

The intent of a new node is its record without a confirmed create, the intent of a stop an order
that was not sent. Each is durable before its call, and any later handler repeats a dead handler's:
the name and the token of the training job are in the record.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from slotq_core.errors import RightMissing, SlotQError, Unavailable
from slotq_core.lifecycle import copied
from slotq_core.model.attempts import StopCause, StopOrder
from slotq_core.model.nodes import Node, NodeState
from slotq_core.model.snapshot import Snapshot
from slotq_core.operations.attempts.pool_lessons import Lessons
from slotq_core.operations.effects import is_dead
from slotq_core.operations.nodes.ended_nodes import (
    EndedNodes,
    NodeEnding,
    OnNode,
)
from slotq_core.operations.nodes.node_changes import NodeChanges
from slotq_core.operations.nodes.node_news import NodeNews
from slotq_core.operations.nodes.node_starts import NodeStarts, Prescribed
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
from slotq_core.ports.nodes import NodeDocuments
from slotq_core.ports.store import Store
from slotq_core.ports.stored import Change, NodeChange
from slotq_core.ports.surroundings import Clock
from slotq_core.ports.training import SageMakerService, Verdict


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
        training: SageMakerService,
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
        self._lessons, self._ended = lessons, ended
        self._order_leave, self._take_report = order_leave, take_report
        self._changes = NodeChanges(store)
        self._starts = NodeStarts(
            store,
            training,
            clock,
            lessons=lessons,
            ended=ended,
            prescribed=prescribed,
            documents=documents,
        )
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
        as_planned = True
        if not node.created:
            stale = is_dead(_intent_at(node), self._clock.now())
            if node.state is NodeState.STOPPING and not stale:
                return True  # The create is in progress; who confirms it also stops the node.
            node = self._starts.start(node, stale=stale)
            as_planned = node is not None and node.state is not NodeState.STOPPING
        if node is not None and node.state is NodeState.STOPPING:
            self._stop(node)
        return as_planned

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
