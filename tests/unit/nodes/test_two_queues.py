"""Two queues of one account with pools and nodes of the same names: neither touches the other's."""

from __future__ import annotations

from typing import Any

import pytest

from slotq.local.services.training_service import PlaneClient
from slotq.local.training.plane import Plane
from slotq.local.training.virtual_runner import VirtualClock, VirtualRunner, Work
from slotq_core.adapters.memory.node_documents import MemoryNodeDocuments
from slotq_core.adapters.memory.store import MemoryStore
from slotq_core.adapters.sagemaker.observations import observation_of
from slotq_core.adapters.sagemaker.service import SageMakerTraining
from slotq_core.manager import QueueManager
from slotq_core.model.nodes import Node, NodeState
from slotq_core.model.pools import NodeRules
from slotq_core.operations.effects import HANDLER_LIFETIME
from slotq_core.wire.submission import parse_submission
from tests.queue_world import START, pool, request


class Silent:
    def wake(self) -> None:
        pass

    def wake_at(self, at: int) -> None:
        pass


class Account:
    """One SageMaker, of which each queue hears every event."""

    def __init__(self) -> None:
        self.clock = VirtualClock(START)
        self.events: list[dict[str, Any]] = []
        runner = VirtualRunner(clock=self.clock, work_of=lambda *_: Work())
        self.plane = Plane(clock=self.clock, runner=runner, emit=self.events.append)
        self.stores = {name: MemoryStore() for name in ("one", "two")}
        self.queues = {name: self._queue(name) for name in self.stores}

    def _queue(self, name: str) -> QueueManager:
        kept = pool("p", 2, nodes=NodeRules(gpus=2))
        self.stores[name].configuration.change((kept,), who="test", now=START)
        client = PlaneClient(self.plane)
        return QueueManager(
            store=self.stores[name],
            training=SageMakerTraining(queue=name, clock=self.clock, make_client=lambda: client),
            clock=self.clock,
            notifier=Silent(),
            documents=MemoryNodeDocuments(self.clock),
        )

    def submit(self, queue: str) -> None:
        body = request("job1", gpus="1")
        body["AlgorithmSpecification"]["ContainerEntrypoint"] = ["train"]
        submission, parsed = parse_submission(body)
        self.queues[queue].submissions.submit(submission, parsed, submitter="ann")

    def deliver(self) -> None:
        self.plane.advance()
        events, self.events[:] = [*self.events], []
        for event in events:
            for queue in self.queues.values():
                queue.observe(observation_of(event["detail"], at=self.clock.now()))
        for queue in self.queues.values():
            queue.passes.run()

    def node(self, queue: str) -> Node | None:
        return self.stores[queue].nodes.get("p", "node-1")

    def status(self, node: Node) -> str:
        found = PlaneClient(self.plane).describe_training_job(TrainingJobName=node.training_job)
        return found["TrainingJobStatus"]


@pytest.fixture
def account() -> Account:
    made = Account()
    for queue in made.queues:
        made.submit(queue)
    made.deliver()
    made.deliver()
    return made


def test_each_has_a_training_job_of_its_own_that_the_other_leaves_alone(account: Account) -> None:
    one, two = account.node("one"), account.node("two")
    assert one is not None and two is not None
    assert (one.name, one.generation) == (two.name, two.generation)
    assert one.training_job != two.training_job
    for _ in range(3):
        account.clock.set(account.clock.now() + HANDLER_LIFETIME + 60_000)
        until = account.clock.now() + 30_000
        findings = [queue.periodic.run(until=until) for queue in account.queues.values()]
        account.deliver()
        assert not any("nobody" in str(found) or "unexpected" in str(found) for found in findings)
    assert {account.status(node) for node in (one, two)} == {"InProgress"}


def test_the_end_of_one_is_no_news_to_the_other(account: Account) -> None:
    one, two = account.node("one"), account.node("two")
    assert one is not None and two is not None
    PlaneClient(account.plane).stop_training_job(TrainingJobName=one.training_job)
    account.clock.set(account.clock.now() + 200_000)
    account.deliver()
    after = account.node("two")
    assert after is not None and after.generation == two.generation
    assert after.state is NodeState.STARTING
    assert account.status(two) == "InProgress"
    again = account.node("one")
    assert again is None or again.generation > one.generation
