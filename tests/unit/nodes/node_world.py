"""A queue with nodes in one process: manager, store in memory, our own training plane, and agents
that the tests speak for."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from slotq.local.training.virtual_runner import Work
from slotq_core.errors import Unavailable
from slotq_core.gpu_amounts import WHOLE
from slotq_core.lifecycle import move
from slotq_core.manager import QueueManager
from slotq_core.model.attempts import Attempt
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.nodes import Node, NodeState
from slotq_core.model.pools import NodeRules, Pool
from slotq_core.operations.effects import Effects
from slotq_core.operations.nodes.ended_nodes import EndedNodes
from slotq_core.operations.nodes.node_effects import NodeEffects
from slotq_core.operations.reconcile import Reconciler
from slotq_core.ports.nodes import Document, Launch
from slotq_core.ports.stored import Change, NodeChange
from slotq_core.ports.training import Observation, Phase
from tests.queue_world import QueueWorld, pool

LEASE = 180_000
TENANT = "0123abcd"


def nodes_pool(slots: int = 2, *, gpus: int = 4, **fields: Any) -> Pool:
    rules = NodeRules(gpus=gpus, keep=fields.pop("keep", 600_000))
    return pool(slots=slots, nodes=rules, **fields)


@dataclass
class Documents:
    """A bucket for the documents of nodes, of which these tests need only the launch."""

    fails: bool = False

    def launch(self, node: Node, rules: NodeRules) -> Launch:
        if self.fails:
            raise Unavailable("no bucket")
        return Launch(
            entrypoint=("python3", "-c", "agent"),
            environment={"SLOTQ_NODE": node.name, "SLOTQ_NODE_TOKEN": node.token},
        )

    def lease(self) -> int:
        return 180

    def orders(self, node: Node) -> Document | None:
        return None

    def put_orders(self, node: Node, content: bytes, *, replaces: str | None) -> None: ...

    def report(self, node: Node) -> Document | None:
        return None


@dataclass
class Agents:
    """What the queue says to agents, and what it reads of them."""

    left: list[str] = field(default_factory=list)
    """The nodes that were ordered to leave."""
    reports: dict[str, list[Job]] = field(default_factory=dict)
    """By node, the jobs that its last report shows as completed."""
    unreadable: bool = False


class NodeWorld(QueueWorld):
    """`hears`: whether the queue can give orders to agents and read their reports."""

    def __init__(self, *pools: Pool, hears: bool = False, **fields: Any) -> None:
        self.documents, self.agents, self.hears = Documents(), Agents(), hears
        super().__init__(*(pools or (nodes_pool(),)), work=_Nodes(), **fields)

    def another_manager(self) -> QueueManager:
        manager = QueueManager(
            store=self.store,
            training=self.training(),
            clock=self.clock,
            notifier=self,
            dead_letters=self,
            scripts=self.scripts,
            documents=self.documents,
        )
        if self.hears:
            effects = effects_of(manager)
            vars(effects)["nodes"] = self._hearing(effects)
        return manager

    def another_reconciler(self) -> Reconciler:
        effects = effects_of(self.another_manager())
        return Reconciler(self.store, self.training(), self.clock, effects)

    def _hearing(self, effects: Effects) -> NodeEffects:
        """The effects with orders and reports, as the queue wires them."""
        parts = vars(effects)
        lessons, observing = parts["_lessons"], effects.observing
        ended = EndedNodes(
            self.store, self.clock, lessons, end_job=observing.end, take_report=self._take_report
        )
        return NodeEffects(
            self.store,
            self.training(),
            self.clock,
            lessons=lessons,
            ended=ended,
            prescribed=parts["_requests"].prescribed,
            documents=self.documents,
            order_leave=lambda node: self.agents.left.append(node.name),
            take_report=self._take_report,
        )

    def _take_report(self, node: Node) -> None:
        if self.agents.unreadable:
            raise Unavailable("no bucket")
        for job in self.agents.reports.pop(node.name, []):
            done = move(job, JobState.COMPLETED, at=self.clock.now())
            assert job.attempt is not None
            self.store.decisions.commit(
                [Change(before=job, after=done, ended=replace(job.attempt, ended_at=1))]
            )

    def asks(self, name: str, gpus: int = 1, *, tenant: str = TENANT, **fields: Any) -> Job:
        """Submit a job that asks for GPUs of a node."""
        job = self.submit(name, **fields).job
        after = replace(job, gpus=WHOLE * gpus, tenant=tenant)
        (job,) = self.store.decisions.commit([Change(before=job, after=after)])
        return job

    def run_pass(self) -> list[str]:
        """Run a pass; the kinds of its decisions."""
        return [type(each).__name__ for each in self.manager.passes.run().decisions]

    def starts(self, name: str = "job1", gpus: int = 1, **fields: Any) -> Node:
        """The node that a pass starts for this new job."""
        self.asks(name, gpus, **fields)
        assert self.run_pass() == ["StartNode"]
        return self.node()

    def ready(self, name: str = "job1", gpus: int = 1) -> Node:
        """A node that runs and whose agent has reported."""
        self.starts(name, gpus)
        self.deliver()
        self.report(self.node())
        self.changed(self.node(), state=NodeState.READY)
        return self.node()

    def report(self, node: Node, *, number: int = 1) -> None:  # type: ignore[override]
        """Let the agent report."""
        now = self.clock.now()
        self.store.nodes.note_report(node, number, at=now, lease_until=now + LEASE)

    def stops(self, *names: str) -> None:
        """Take in that the attempts of these jobs have stopped, and run a pass."""
        observing = effects_of(self.manager).observing
        for name in names:
            attempt = self.job(name).attempt
            assert attempt is not None
            stopped = Observation(
                training_job=attempt.training_job, phase=Phase.STOPPED, at=self.clock.now()
            )
            observing.observe(stopped)
        self.manager.passes.run()

    def changed(self, node: Node, **fields: Any) -> Node:
        change = NodeChange(before=node, after=replace(node, **fields))
        self.store.decisions.commit([], nodes=[change])
        return self.node()

    def puts_on(self, node: Node, name: str, *gpus: int, **fields: Any) -> Job:
        """A job that runs on the node. No pass was asked, and SageMaker knows nothing of it."""
        stored = self.store.jobs.get(name)
        job = stored or self.asks(name, len(gpus), **fields)
        attempt = Attempt(
            number=1,
            training_job=name,
            token="of the job",
            pool=node.pool,
            instance_type=INSTANCE,
            admitted_at=self.clock.now(),
            node=node.name,
            node_generation=node.generation,
            gpu_ids=gpus,
            created=True,
        )
        begun = move(
            job, JobState.STARTING, at=self.clock.now(), attempt=attempt, attempts=1, claim=None
        )
        (job,) = self.store.decisions.commit([Change(before=job, after=begun)])
        running = replace(attempt, running_since=self.clock.now())
        after = move(job, JobState.RUNNING, at=self.clock.now(), attempt=running)
        (job,) = self.store.decisions.commit([Change(before=job, after=after)])
        return job

    def nodes(self) -> list[Node]:
        return [*self.store.worlds.load(self.clock.now()).snapshot.nodes]

    def node(self) -> Node:
        (node,) = self.nodes()
        return node

    def request_of(self, training_job: str) -> dict[str, Any]:
        return dict(self.client.describe_training_job(TrainingJobName=training_job))

    def used(self) -> Demand:
        return self.store.worlds.load(self.clock.now()).ledgers["p"].used


INSTANCE = "ml.m5.large"


class _Nodes(dict[str, Work]):
    """Nodes run until they are stopped; jobs as the world says."""

    def __bool__(self) -> bool:
        return True

    def get(self, job: str, default: Any = None) -> Any:
        return Work() if job.startswith("node:") else default


def effects_of(manager: QueueManager) -> Effects:
    found: Effects = vars(manager)["_effects"]
    return found


def few_changes(world: NodeWorld, most: int) -> None:
    """Let a transaction hold at most so many changes of jobs."""
    vars(world.store.decisions)["_most_changes"] = most
