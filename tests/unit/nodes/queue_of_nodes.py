"""A queue in memory with one node, and an agent that does what the real one does with documents."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from slotq.local.training.virtual_runner import VirtualClock
from slotq_core.adapters.memory.node_documents import MemoryNodeDocuments
from slotq_core.adapters.memory.scripts import MemoryScripts
from slotq_core.adapters.memory.store import MemoryStore
from slotq_core.lifecycle import move
from slotq_core.model.attempts import Attempt, StopCause, StopOrder
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.nodes import Node
from slotq_core.model.pools import NodeRules
from slotq_core.operations.attempts.suspends import Suspends
from slotq_core.operations.effects import Effects
from slotq_core.operations.nodes.reports import Taken
from slotq_core.ports.store import Store
from slotq_core.ports.stored import Change
from slotq_core.wire.nodes.documents import (
    AttemptPhase,
    EndReason,
    Gpu,
    NodePhase,
    NodeReport,
    Orders,
    ReportedAttempt,
    read_orders,
    written_report,
)
from tests.contract.keeping_nodes import changed, coming, ready, starting_node, waits_for_gpus
from tests.contract.worlds import NOW, a_pool, a_queue, commit

GPUS = 8


class NoSageMaker:
    """A training service that must not be asked."""

    def __getattr__(self, word: str) -> Any:
        raise AssertionError(f"SageMaker is asked: {word}")


class NoWakes:
    def wake(self) -> None:
        """Nobody listens."""

    def wake_at(self, at: int) -> None:
        """Nobody listens."""


class QueueOfNodes:
    """`node`: its only node, ready or starting."""

    def __init__(self, *, is_ready: bool = True, store: Store | None = None, **pool: Any) -> None:
        self.clock = VirtualClock(NOW + 1000)
        self.store = a_queue(
            store or MemoryStore(), a_pool("p5", 3, nodes=NodeRules(), **pool), a_pool("p4", 3)
        )
        self.documents = MemoryNodeDocuments(self.clock, route="https://queue/prod")
        self.effects = self.new_handler()
        contents = Demand(gpus=GPUS, vcpus=96)
        self.node = (
            ready(self.store, contents=contents)
            if is_ready
            else changed(self.store, starting_node(self.store, contents=contents))
        )
        self.agent = Agent(self)

    def new_handler(self) -> Effects:
        scripts = MemoryScripts(self.clock)
        suspends = Suspends(self.store.jobs, scripts, NoWakes(), self.clock)
        return Effects(
            self.store, NoSageMaker(), self.clock, suspends, scripts, documents=self.documents
        )

    def later(self, seconds: float) -> None:
        self.clock.set(self.clock.now() + round(1000 * seconds))

    def now(self) -> Node:
        found = self.store.nodes.get(self.node.pool, self.node.name)
        assert found is not None
        return found

    def admit(self, name: str, *gpus: int, **fields: Any) -> Job:
        """Commit the start of a new job on the node."""
        job = waits_for_gpus(self.store, name, len(gpus), **fields)
        return self.admit_again(job, *gpus)

    def admit_again(self, job: Job, *gpus: int, node: Node | None = None) -> Job:
        return commit(self.store, coming(job, node or self.node, *gpus))

    def start(self, name: str, *gpus: int, **fields: Any) -> Job:
        """Commit a start and carry it out."""
        job = self.admit(name, *gpus, **fields)
        self.effects.carry_out(job)
        return self.job(name)

    def stop(
        self, name: str, cause: StopCause = StopCause.EVICTED, grace: int | None = None
    ) -> Job:
        """Commit the order to stop a job. `grace` in ms."""
        before = self.job(name)
        assert before.attempt
        now = self.clock.now()
        until = None if grace is None else now + grace
        order = StopOrder(cause=cause, by="urgent", at=now, grace_until=until)
        after = move(
            before,
            JobState.STOPPING,
            at=now,
            attempt=replace(before.attempt, stop=order),
            evictions=before.evictions + 1,
        )
        return commit(self.store, Change(before=before, after=after))

    def job(self, name: str) -> Job:
        found = self.store.jobs.get(name)
        assert found is not None
        return found

    def attempt(self, name: str) -> Attempt:
        found = self.job(name).attempt
        assert found is not None
        return found

    def orders(self) -> Orders:
        document = self.documents.orders(self.node)
        assert document is not None
        return read_orders(document.content)

    def ordered(self) -> dict[str, str]:
        """What the orders say of each attempt."""
        return {
            order.attempt: "stop" if order.stop else "suspend" if order.suspend else "run"
            for order in self.orders().attempts
        }

    def take_in(self, node: Node | None = None) -> Taken:
        return self.effects.node_services.reports.take_in(node or self.now())

    def settle(self) -> Taken:
        """Let the agent read the orders and report, and take that in."""
        self.agent.read()
        self.agent.report()
        return self.take_in()


class Agent:
    """The agent's side of the documents. Its scripts end when they are told to."""

    def __init__(self, queue: QueueOfNodes) -> None:
        self._queue = queue
        self.born = queue.clock.now()
        self.number = self.read_number = 0
        self.attempts: dict[str, ReportedAttempt] = {}
        self.forgotten: set[str] = set()
        self.leaves = False
        self.uids = True
        self.gpus = GPUS
        self.begun: list[str] = []
        """Each attempt that has begun, each time."""

    @property
    def uptime(self) -> int:
        return self._queue.clock.now() - self.born

    def read(self, orders: Orders | None = None) -> None:
        """Read orders; None: the present ones."""
        if orders is None:
            document = self._queue.documents.orders(self._queue.node)
            if document is None:
                return
            orders = read_orders(document.content)
        if orders.number <= self.read_number:
            return
        self.read_number, self.leaves = orders.number, self.leaves or orders.leave
        listed = {order.attempt for order in orders.attempts}
        for name in self.attempts.keys() - listed:
            if self.attempts[name].state.ended:
                self.forgotten.add(name)
            else:
                self.end(name, AttemptPhase.STOPPED, why=EndReason.ORDER)
        for order in orders.attempts:
            if order.attempt in self.forgotten:
                continue
            if order.attempt not in self.attempts:
                self.attempts[order.attempt] = ReportedAttempt(
                    attempt=order.attempt, state=AttemptPhase.RUNNING, began_ms=self.uptime
                )
                self.begun.append(order.attempt)
            if order.stop or self.leaves:
                self.end(order.attempt, AttemptPhase.STOPPED, why=EndReason.ORDER)

    def end(self, name: str, state: AttemptPhase, **more: Any) -> None:
        """End an attempt that runs."""
        one = self.attempts[name]
        if not one.state.ended:
            self.attempts[name] = replace(one, state=state, ended_ms=self.uptime, **more)

    def said(self, **more: Any) -> NodeReport:
        self.number += 1
        node = self._queue.node
        described: dict[str, Any] = {
            "node": node.name,
            "generation": node.generation,
            "number": self.number,
            "orders": self.read_number,
            "uptime_ms": self.uptime,
            "state": NodePhase.LEAVING if self.leaves else NodePhase.READY,
            "uids": self.uids,
            "gpus": tuple(Gpu(index=n, id=str(n)) for n in range(self.gpus)),
            "cpus": 96,
            "memory_mib": 1_000 * 1024,
            "attempts": tuple(
                one for name, one in self.attempts.items() if name not in self.forgotten
            ),
        }
        return NodeReport(**(described | more))

    def report(self, **more: Any) -> bytes:
        """Write a report. Returns it."""
        content = written_report(self.said(**more), self._queue.node.token)
        self._queue.documents.write_report(self._queue.node, content)
        return content
