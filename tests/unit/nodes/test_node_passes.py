"""Passes that decide about nodes: commits, conflicts, refusals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from slotq_core.errors import ConditionFalse, Conflict
from slotq_core.model.callers import Access
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import JobState
from slotq_core.model.nodes import NodeState
from slotq_core.model.pools import NodeRules
from slotq_core.model.projects import EVERYWHERE, Prescription, Project
from slotq_core.operations.passes import AHEAD
from slotq_core.ports.stored import Change, NodeChange
from tests.queue_world import pool
from tests.unit.nodes.node_world import NodeWorld, few_changes, nodes_pool

ANN = Access(members=("ann",))

Refuse = Callable[[Sequence[NodeChange]], Exception | None]


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> Callable[[NodeWorld, Refuse], None]:
    """Lets a world's store refuse transactions by their nodes."""

    def refuse(world: NodeWorld, refusal: Refuse) -> None:
        commit = world.store.decisions.commit

        def refused(changes: Any, *, nodes: Sequence[NodeChange] = (), **others: Any) -> Any:
            if nodes and (error := refusal(nodes)) is not None:
                raise error
            return commit(changes, nodes=nodes, **others)

        monkeypatch.setattr(world.store.decisions, "commit", refused)

    return refuse


def test_a_node_is_evicted_whole_for_a_job_of_higher_rank():
    world = NodeWorld(nodes_pool(slots=1), hears=True)
    node = world.ready("low1")
    world.puts_on(node, "low1", 0)
    world.puts_on(world.node(), "low2", 1)
    world.submit("high", priority=9)
    (decision, *_) = world.manager.passes.run().decisions
    assert [victim.name for victim in decision.victims] == ["low1", "low2"]
    assert {world.job(name).state for name in ("low1", "low2")} == {JobState.STOPPING}
    assert (world.node().state, world.agents.left) == (NodeState.DRAINING, [])
    world.stops("low1", "low2")
    node = world.node()
    assert (node.state, node.stop.by) == (NodeState.STOPPING, "high")
    assert world.agents.left == ["node-1"]
    world.later(60)
    assert world.job("high").state is JobState.RUNNING
    assert world.used() == Demand(slots=1)


def test_the_node_drains_in_the_transaction_that_stops_its_jobs(monkeypatch):
    world = NodeWorld(nodes_pool(slots=1))
    world.puts_on(world.ready("low1"), "low1", 0)
    world.submit("high", priority=9)
    commits: list[tuple[list[str], list[str]]] = []
    commit = world.store.decisions.commit

    def recorded(changes: Any, *, nodes: Sequence[NodeChange] = (), **others: Any) -> Any:
        states = [change.node.state.value for change in nodes]
        commits.append(([change.after.name for change in changes], states))
        return commit(changes, nodes=nodes, **others)

    monkeypatch.setattr(world.store.decisions, "commit", recorded)
    world.manager.passes.run()
    assert (["high", "low1"], ["draining"]) in commits


def test_an_eviction_in_several_transactions_drains_first():
    world = NodeWorld(nodes_pool(slots=1, gpus=8), hears=True)
    world.ready("low1", gpus=1)
    for number in range(6):
        world.puts_on(world.node(), f"low{number + 1}", number)
    world.submit("high", priority=9)
    few_changes(world, 3)
    result = world.manager.passes.run()
    assert result.troubles == ()
    assert {world.job(f"low{number + 1}").state for number in range(6)} == {JobState.STOPPING}
    world.stops(*(f"low{number + 1}" for number in range(6)))
    world.later(60)
    assert world.job("high").state is JobState.RUNNING


def test_a_refused_half_does_not_spoil_the_generation_of_the_other(refusing):
    world = NodeWorld(nodes_pool(slots=3))
    for name in ("job1", "job2", "job3"):
        world.asks(name, gpus=4)
    refused: list[int] = []

    def refuse(nodes: Sequence[NodeChange]) -> Exception | None:
        if len(nodes) > 1:
            refused.append(len(nodes))
            return Conflict("too many at once")
        return None

    refusing(world, refuse)
    assert world.run_pass() == ["StartNode"] * 3
    assert refused[0] == 3
    generations = sorted(node.generation for node in world.nodes())
    assert generations == [generations[0] + number for number in range(3)]
    assert all(node.created for node in world.nodes())


def test_the_end_of_a_node_that_the_store_always_refuses_stops_nothing_else(refusing):
    world = NodeWorld(nodes_pool(keep=0))
    job = world.puts_on(world.ready(), "job1", 0)
    done = replace(job, state=JobState.COMPLETED, attempt=None)
    world.store.decisions.commit([Change(before=job, after=done, ended=job.attempt)])
    tries: list[int] = []

    def refuse(nodes: Sequence[NodeChange]) -> Exception | None:
        tries.append(1)
        return ConditionFalse("there are jobs on it") if nodes[0].empty else None

    refusing(world, refuse)
    world.clock.set(world.clock.now() + 1)
    result = world.manager.passes.run()
    assert len(tries) == 3
    assert not result.unfinished
    ((kind, subject, reason),) = world.letters
    assert (kind, subject) == ("decision", "EndNode p/node-1")
    assert "nothing more is decided about this node" in reason
    assert any("EndNode p/node-1" in trouble for trouble in result.troubles)


def test_nodes_count_among_the_jobs_changed_before_the_first_call(monkeypatch):
    world = NodeWorld(nodes_pool(slots=AHEAD[0] + 2))
    for number in range(AHEAD[0] + 2):
        world.asks(f"job{number}", gpus=4)
    seen: list[int] = []
    create = world.client.create_training_job

    def counting(**request: Any) -> Any:
        seen.append(len(world.nodes()))
        return create(**request)

    monkeypatch.setattr(world.client, "create_training_job", counting)
    assert world.run_pass() == ["StartNode"] * (AHEAD[0] + 2)
    assert seen == [AHEAD[0]] * AHEAD[0] + [AHEAD[0] + 2] * 2


def test_a_job_whose_node_is_not_ready_waits_with_a_claim_and_starts_there():
    world = NodeWorld()
    world.starts()
    claim = world.job("job1").claim
    assert (claim.pool, claim.node, claim.gpu_ids) == ("p", "node-1", (0,))
    world.deliver()
    world.report(world.node())
    world.changed(world.node(), state=NodeState.READY)
    assert world.run_pass() == ["Start"]
    attempt = world.job("job1").attempt
    assert (attempt.node, attempt.node_generation) == ("node-1", world.node().generation)
    assert attempt.gpu_ids == (0,)
    assert attempt.node_training_job == world.node().training_job
    assert world.used() == Demand(slots=1), "the node holds the slot"


COST, OWN = {"Key": "cost-center", "Value": "4711"}, {"Key": "stage", "Value": "research"}


@pytest.mark.parametrize("shared", [False, True])
def test_a_job_in_projects_gives_its_node_its_project_and_the_tags_of_all_its_jobs(shared: bool):
    world = NodeWorld(pool(slots=2, nodes=NodeRules(gpus=4, shared=shared)))
    sharing = world.store.configuration.read().sharing
    project = Project(
        name="vision",
        quota={EVERYWHERE: Demand(slots=1)},
        access=ANN,
        requests=Prescription(fixed={"Tags": [COST]}, defaults={"Tags": [OWN]}),
    )
    world.store.configuration.change(
        sharing=replace(sharing, projects=(project,)), who="test", now=world.clock.now()
    )
    node = world.starts(project="vision")
    assert node.project == ("" if shared else "vision")
    arn = world.request_of(node.training_job)["TrainingJobArn"]
    tags = {tag["Key"]: tag["Value"] for tag in world.client.list_tags(ResourceArn=arn)["Tags"]}
    assert tags.get("slotq:project") == (None if shared else "vision")
    assert tags.get("cost-center") == (None if shared else "4711")
    assert "stage" not in tags, "a default may be another one in the next job"
