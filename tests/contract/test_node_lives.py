"""Lives of nodes with as many jobs as a node takes, on DynamoDB's own transactions."""

from __future__ import annotations

from typing import Any

import pytest

from slotq_core.adapters.dynamodb.store import DynamoStore, table_definition
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import JobState
from slotq_core.model.nodes import MOST_JOBS, NodeState
from slotq_core.operations.nodes.node_stops import LAST_CALL, LAST_ORDER
from slotq_core.ports.training import Observation, Phase, Verdict
from tests.contract.evented_dynamodb import EventedDynamo
from tests.unit.nodes.node_world import NodeWorld, nodes_pool

NAMES = [f"job{number + 1}" for number in range(MOST_JOBS)]


@pytest.fixture
def world(evented_client: EventedDynamo) -> NodeWorld:
    """A node with as many jobs as it takes."""
    evented_client.create_table(**table_definition("t"))
    store = DynamoStore(evented_client, "t")
    world = NodeWorld(nodes_pool(slots=1, gpus=MOST_JOBS), hears=True, store=store)
    world.ready()
    for number, name in enumerate(NAMES):
        world.puts_on(world.node(), name, number)
    return world


def ended(world: NodeWorld, **fields: Any) -> Observation:
    described = {"phase": Phase.FAILED, "verdict": Verdict.FAIL, "message": "killed"} | fields
    training_job = world.node().training_job
    return Observation(training_job=training_job, at=world.clock.now(), **described)


def states(world: NodeWorld) -> set[JobState]:
    return {job.state for job in world.store.jobs.several(NAMES).values()}


def test_a_full_node_dies(world: NodeWorld) -> None:
    world.manager.observe(ended(world))
    assert states(world) == {JobState.BACKOFF}
    assert world.nodes() == []
    assert world.used() == Demand()
    assert [*world.store.repair.inspect()] == []


def test_a_full_node_is_evicted_whole(world: NodeWorld) -> None:
    world.submit("high", priority=9)
    result = world.manager.passes.run()
    assert (result.troubles, states(world)) == ((), {JobState.STOPPING})
    assert world.node().state is NodeState.DRAINING
    world.stops(*NAMES)
    assert world.node().state is NodeState.STOPPING
    world.later(60)
    assert world.job("high").state is JobState.RUNNING
    assert [*world.store.repair.inspect()] == []


def test_a_full_node_reaches_sagemakers_longest_runtime(world: NodeWorld) -> None:
    node = world.changed(world.node(), state=NodeState.DRAINING)
    assert node.leaves_at is not None
    world.clock.set(node.leaves_at + LAST_CALL - LAST_ORDER)
    world.report(world.node(), number=2)
    assert world.manager.passes.run().troubles == ()
    assert states(world) == {JobState.STOPPING}
    assert world.node().state is NodeState.STOPPING
    world.manager.observe(ended(world, phase=Phase.COMPLETED))
    assert states(world) == {JobState.PREEMPTED}
    assert [*world.store.repair.inspect()] == []
