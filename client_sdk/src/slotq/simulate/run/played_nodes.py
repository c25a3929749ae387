"""The nodes of a live run: their training jobs run agents on the virtual clock.

An agent reads its orders, runs their attempts for as long as their work takes, and reports what has
changed. It never falls silent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any

from slotq.local.training.life import INTERNAL
from slotq.local.training.runner import Step, StepReport, WorkEnd
from slotq.local.training.virtual_runner import EXIT_RELEASED, VirtualRunner
from slotq_core.adapters.memory.node_documents import MemoryNodeDocuments
from slotq_core.model.nodes import Node, node_of_owner
from slotq_core.names import JOB_TAG
from slotq_core.ports.surroundings import Clock
from slotq_core.ports.training import NODE_MAX_RUNTIME
from slotq_core.wire.nodes.documents import (
    AttemptPhase,
    EndReason,
    Gpu,
    NodePhase,
    NodeReport,
    OrderedAttempt,
    ReportedAttempt,
    read_orders,
    written_report,
)


class LastingDocuments(MemoryNodeDocuments):
    """The documents of nodes that never fall silent: a lease lasts as long as a node can."""

    def lease(self) -> int:
        return NODE_MAX_RUNTIME


def node_of(request: Mapping[str, Any]) -> tuple[str, str] | None:
    """The pool and the name of the node whose training job this is; None: it is a job's."""
    tags = {tag["Key"]: tag["Value"] for tag in request.get("Tags") or ()}
    return node_of_owner(tags.get(JOB_TAG, ""))


class PlayedNodes:
    """A `Runner` in which an agent runs in each node's training job."""

    def __init__(
        self,
        runner: VirtualRunner,
        documents: LastingDocuments,
        clock: Clock,
        *,
        find: Callable[[str, str], Node | None],
        gpus: Mapping[str, int],
        one_person: AbstractSet[str],
        is_faulty: Callable[[str], bool],
    ) -> None:
        """`runner` does the work of everything, also of attempts on nodes. `find` reads a node by
        pool and name. `gpus`: of one node, by pool. `one_person`: the pools whose nodes take one
        person's jobs at a time. `is_faulty`: whether an attempt fails at its start."""
        self._runner, self._documents, self._clock = runner, documents, clock
        self._find, self._gpus, self._one_person = find, gpus, one_person
        self._is_faulty = is_faulty
        self._agents: dict[str, _Agent] = {}
        """By the training job of the node."""
        self._agent_of: dict[str, _Agent] = {}
        """By the training job of an attempt that runs on a node."""

    def start(self, training_job: str, request: Mapping[str, Any]) -> None:
        self._runner.start(training_job, request)
        place = node_of(request)
        node = self._find(*place) if place else None
        if node is not None:
            self._agents[training_job] = _Agent(
                node,
                self._clock,
                gpus=self._gpus[node.pool],
                uids=node.pool not in self._one_person,
            )

    def terminate(self, training_job: str) -> None:
        self._runner.terminate(training_job)

    def kill(self, training_job: str) -> None:
        self._runner.kill(training_job)

    def next_due(self) -> int | None:
        return self._runner.next_due()

    def reports(self) -> Sequence[StepReport]:
        """The reports on training jobs. Those on attempts of nodes go to the agents."""
        found = []
        for report in self._runner.reports():
            agent = self._agent_of.get(report.training_job)
            if agent is None:
                found.append(report)
            elif report.exit is not None:
                agent.has_ended(report.training_job, report.exit)
            elif report.step is Step.FINISHED:
                del self._agent_of[report.training_job]
        return found

    def obey(self) -> None:
        """Let each agent read its orders, if they have changed, and do what they say."""
        for training_job, agent in [*self._agents.items()]:
            document = self._documents.orders(agent.node)
            if document is not None and agent.version != document.version:
                agent.version = document.version
                self._carry_out(agent, document.content)
            if agent.leaves and not agent.live:
                self._runner.finish(training_job)
                del self._agents[training_job]

    def _carry_out(self, agent: _Agent, content: bytes) -> None:
        orders = read_orders(content)
        agent.orders, agent.leaves = orders.number, orders.leave
        ordered = {order.attempt: order for order in orders.attempts}
        agent.forget(ordered)
        for name, order in ordered.items():
            stops = order.stop or orders.leave
            if name not in agent.attempts:
                self._begin(agent, order, stops=stops)
            elif stops:
                self._runner.terminate(name)
            elif order.suspend:
                self._runner.ask(name)
        for name in agent.live - ordered.keys():
            self._runner.terminate(name)

    def _begin(self, agent: _Agent, order: OrderedAttempt, *, stops: bool) -> None:
        name = order.attempt
        if stops:
            agent.ends(name, AttemptPhase.STOPPED, why=EndReason.ORDER)
        elif self._is_faulty(name):
            agent.ends(name, AttemptPhase.FAILED, why=EndReason.NODE, failure=INTERNAL)
        else:
            agent.begins(name)
            self._agent_of[name] = agent
            self._runner.start(name, {"Tags": [{"Key": JOB_TAG, "Value": order.job}]})

    def report(self) -> Iterator[tuple[Node, NodeReport]]:
        """Write and yield the reports of the agents that have news."""
        for agent in self._agents.values():
            if agent.has_news:
                report = agent.report()
                content = written_report(report, agent.node.token)
                self._documents.write_report(agent.node, content)
                yield agent.node, report


class _Agent:
    """What the agent of a node knows."""

    def __init__(self, node: Node, clock: Clock, *, gpus: int, uids: bool) -> None:
        self.node, self._clock, self._born = node, clock, clock.now()
        self._gpus, self._uids = gpus, uids
        self.version = ""
        """Of the orders that it has read."""
        self.orders = 0
        """Their number."""
        self.leaves = False
        self.attempts: dict[str, ReportedAttempt] = {}
        self.has_news = True
        self._reports = 0

    @property
    def live(self) -> set[str]:
        return {name for name, one in self.attempts.items() if not one.state.ended}

    def begins(self, name: str) -> None:
        self.attempts[name] = ReportedAttempt(
            attempt=name, state=AttemptPhase.RUNNING, began_ms=self._uptime
        )
        self.has_news = True

    def ends(
        self,
        name: str,
        state: AttemptPhase,
        *,
        why: EndReason = EndReason.ITSELF,
        failure: str = "",
    ) -> None:
        one = self.attempts.get(name) or ReportedAttempt(attempt=name, state=state)
        self.attempts[name] = replace(
            one, state=state, ended_ms=self._uptime, why=why, failure=failure
        )
        self.has_news = True

    def has_ended(self, name: str, end: WorkEnd) -> None:
        """Take in how an attempt's work has ended."""
        if end.code == 0:
            self.ends(name, AttemptPhase.COMPLETED)
        elif end.code == EXIT_RELEASED:
            self.ends(name, AttemptPhase.RELEASED, failure=end.reason)
        elif end.killed:
            self.ends(name, AttemptPhase.STOPPED, why=EndReason.ORDER)
        else:
            self.ends(name, AttemptPhase.FAILED, failure=end.reason)

    def forget(self, ordered: Iterable[str]) -> None:
        """Forget the ended attempts that are no longer ordered."""
        kept = {*ordered, *self.live}
        self.attempts = {name: one for name, one in self.attempts.items() if name in kept}

    def report(self) -> NodeReport:
        self.has_news = False
        self._reports += 1
        return NodeReport(
            node=self.node.name,
            generation=self.node.generation,
            number=self._reports,
            orders=self.orders,
            uptime_ms=self._uptime,
            state=NodePhase.LEAVING if self.leaves else NodePhase.READY,
            uids=self._uids,
            gpus=tuple(Gpu(index=index, id=str(index)) for index in range(self._gpus)),
            attempts=tuple(self.attempts.values()),
        )

    @property
    def _uptime(self) -> int:
        return self._clock.now() - self._born
