"""What the reconciliation finds of nodes, and what it repairs."""

from __future__ import annotations

from dataclasses import replace

from slotq_core.model.attempts import StopCause, StopOrder
from slotq_core.model.jobs import JobState
from slotq_core.model.nodes import NodeState
from slotq_core.operations.effects import HANDLER_LIFETIME
from slotq_core.ports.stored import NodeChange
from tests.unit.nodes.node_world import NodeWorld


def later(world: NodeWorld) -> None:
    world.clock.set(world.clock.now() + HANDLER_LIFETIME)


def findings(world: NodeWorld, *, mend: bool = True) -> list[tuple[str, str, bool]]:
    found = world.another_reconciler().reconcile(mend=mend)
    return [(finding.kind, finding.subject, finding.mended) for finding in found]


def test_a_nodes_training_job_is_no_orphan():
    world = NodeWorld()
    world.starts()
    world.deliver()
    later(world)
    assert findings(world) == []
    later(world)
    assert findings(world) == []
    assert set(world.training_jobs().values()) == {"InProgress"}


def test_a_training_job_that_outlives_its_node_is_an_orphan():
    world = NodeWorld()
    world.starts()
    world.deliver()
    world.store.decisions.commit([], nodes=[NodeChange(before=world.node(), after=None)])
    name = next(iter(world.training_jobs()))
    assert findings(world) == [("orphan", name, False)]
    later(world)
    assert findings(world) == [("orphan", name, True)]
    world.plane.advance()
    assert world.training_jobs() == {name: "Stopped"}


def test_a_node_that_started_after_the_load_is_expected(monkeypatch):
    world = NodeWorld()
    world.starts()
    world.deliver()
    stale = replace(world.store.worlds.load(world.clock.now()), snapshot=_without_nodes(world))
    monkeypatch.setattr(world.store.worlds, "load", lambda _now: stale)
    assert findings(world) == []


def _without_nodes(world: NodeWorld):
    return replace(world.store.worlds.load(world.clock.now()).snapshot, nodes=())


def test_a_missed_start_of_a_node_is_recorded():
    world = NodeWorld()
    world.starts()
    world.plane.knobs.lose_events = 9
    world.deliver()
    assert world.node().running_since is None
    assert findings(world) == [], "the create may be in progress"
    later(world)
    expected = ("running_unseen", "node p/node-1")
    assert findings(world, mend=False) == [(*expected, False)]
    assert world.node().running_since is None
    assert findings(world) == [(*expected, True)]
    assert world.node().running_since is not None
    assert findings(world) == []


def test_a_missed_end_of_a_node_gives_its_jobs_back():
    world = NodeWorld()
    node = world.ready()
    world.puts_on(node, "job1", 0)
    world.plane.knobs.lose_events = 9
    world.client.stop_training_job(TrainingJobName=node.training_job)
    world.deliver()
    later(world)
    expected = ("ended_unseen", "node p/node-1")
    assert findings(world, mend=False) == [(*expected, False)]
    assert world.job("job1").state is JobState.RUNNING
    assert findings(world) == [(*expected, True)]
    assert world.nodes() == []
    assert world.job("job1").state is JobState.BACKOFF


def test_a_node_whose_training_job_is_gone_ends():
    world = NodeWorld()
    node = world.ready()
    world.puts_on(node, "job1", 0)
    world.changed(world.node(), training_job="nobody-knows-it")
    later(world)
    found = findings(world)
    assert ("vanished", "node p/node-1", True) in found
    assert world.nodes() == []
    assert world.job("job1").state is JobState.BACKOFF


def test_a_stale_start_is_repeated_where_starts_are_allowed():
    world = NodeWorld()
    world.asks("job1")
    world.documents.fails = True
    world.run_pass()
    world.documents.fails = False
    assert findings(world) == []
    later(world)
    found = world.another_reconciler().reconcile(starts=False)
    assert [(finding.kind, finding.mended) for finding in found] == [("stale_intent", False)]
    assert "the next pass repeats it" in found[0].text
    expected = ("stale_intent", "node p/node-1")
    assert findings(world) == [(*expected, True)]
    assert world.node().created


def test_a_stale_stop_is_repeated():
    world = NodeWorld()
    world.ready()
    node = world.changed(world.node(), state=NodeState.STOPPING, stop=_stop_of(world.clock.now()))
    assert findings(world) == []
    later(world)
    assert findings(world) == [("stale_intent", "node p/node-1", True)]
    world.plane.advance()
    assert world.training_jobs() == {node.training_job: "Stopped"}


def _stop_of(now: int):
    return StopOrder(cause=StopCause.EVICTED, by="high", at=now)


def test_attempts_on_nodes_are_not_looked_for_in_sagemaker():
    world = NodeWorld()
    world.puts_on(world.ready(), "job1", 0)
    later(world)
    assert findings(world) == []
    assert world.job("job1").state is JobState.RUNNING
