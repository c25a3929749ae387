"""The life of a node: from a decision to a training job and back."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from slotq.local.services.training_service import PlaneClient
from slotq_core.errors import Unavailable
from slotq_core.model.attempts import AttemptOutcome, StopCause, StopOrder
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import JobState
from slotq_core.model.nodes import NodeState
from slotq_core.names import is_legal, node_training_job, token_in_tags
from slotq_core.operations.effects import HANDLER_LIFETIME
from slotq_core.operations.nodes.node_stops import (
    LAST_CALL,
    LAST_ORDER,
    LEAVE_WITHIN,
    READY_WITHIN,
    SILENCE_MARGIN,
)
from slotq_core.ports.stored import Change
from slotq_core.ports.training import NODE_MAX_RUNTIME, Observation, Phase, Verdict
from tests.queue_world import INSTANCE_TYPE, ROLE
from tests.unit.nodes.node_world import (
    LEASE,
    TENANT,
    NodeWorld,
    effects_of,
    few_changes,
    nodes_pool,
)

CREATE = "CreateTrainingJob"


# --- a start ---


def test_a_node_starts_for_a_job_with_what_its_tenant_shares():
    world = NodeWorld()
    node = world.starts(checkpoints="s3://bucket/saved")
    assert (node.state, node.created) == (NodeState.STARTING, True)
    ledger = world.store.worlds.load(world.clock.now()).ledgers["p"]
    assert node.generation == ledger.version
    assert (node.tenant, node.started_for) == (TENANT, "job1")
    assert node.instance_type == INSTANCE_TYPE
    assert (node.demand, node.contents) == (Demand(slots=1), Demand(gpus=4))
    assert world.used() == Demand(slots=1)
    request = world.request_of(node.training_job)
    assert request["AlgorithmSpecification"] == {
        "TrainingImage": "image",
        "TrainingInputMode": "File",
        "ContainerEntrypoint": ["python3", "-c", "agent"],
    }
    assert request["Environment"] == {"SLOTQ_NODE": "node-1", "SLOTQ_NODE_TOKEN": node.token}
    assert request["RoleArn"] == ROLE
    assert request["StoppingCondition"] == {"MaxRuntimeInSeconds": NODE_MAX_RUNTIME}
    resources = request["ResourceConfig"]
    assert (resources["InstanceType"], resources["InstanceCount"]) == (INSTANCE_TYPE, 1)
    for own in ("HyperParameters", "InputDataConfig", "CheckpointConfig"):
        assert not request.get(own)


def test_the_token_of_a_node_is_a_secret():
    world = NodeWorld()
    node = world.starts()
    arn = world.request_of(node.training_job)["TrainingJobArn"]
    tags = {tag["Key"]: tag["Value"] for tag in world.client.list_tags(ResourceArn=arn)["Tags"]}
    assert tags["slotq:job"] == "node:p/node-1"
    assert tags["slotq:token"] == token_in_tags(node.token)
    assert node.token not in str(tags)
    assert len(node.token) == 64
    other = NodeWorld().starts()
    assert other.token != node.token
    assert other.training_job != node.training_job, "SageMaker never forgets a name"


@pytest.mark.parametrize("pool", ["p", "p5.big_pool", "x" * 63, "-", "p-" * 31])
def test_the_name_of_a_nodes_training_job_is_legal(pool: str):
    names = {node_training_job(pool, "node-1", 10**n, "token") for n in (0, 9)}
    assert all(is_legal(name) and "-qstamp-" in name for name in names)
    assert len(names) == 2


def test_a_started_node_settles():
    world = NodeWorld()
    world.starts()
    calls = world.plane.calls[CREATE]
    world.asks("job2")
    assert world.run_pass() == [], "it waits for the same node"
    assert world.plane.calls[CREATE] == calls == 1


def test_two_nodes_of_one_plan_start_in_one_pass():
    world = NodeWorld(nodes_pool(slots=3))
    for name in ("job1", "job2", "job3"):
        world.asks(name, gpus=4)
    assert world.run_pass() == ["StartNode"] * 3
    assert len({node.name for node in world.nodes()}) == 3
    assert all(node.created for node in world.nodes())
    assert world.plane.calls[CREATE] == 3


def test_a_node_runs_and_leaves_in_time():
    world = NodeWorld()
    world.starts()
    world.deliver()
    node = world.node()
    assert node.running_since == world.clock.now()
    assert node.leaves_at == world.clock.now() + 1000 * NODE_MAX_RUNTIME - LAST_CALL


def test_events_of_a_node_are_told_from_those_of_jobs_and_of_others():
    world = NodeWorld()
    node = world.starts()

    def observed(**fields: Any) -> str:
        seen = Observation(
            training_job=node.training_job, phase=Phase.RUNNING, at=world.clock.now(), **fields
        )
        return world.manager.observe(seen).ignored

    assert "somebody else" in observed(token=node.token)
    assert world.node().running_since is None
    assert observed(token=token_in_tags(node.token)) == ""
    version = world.node().version
    assert observed() == ""
    assert world.node().version == version, "repeated news write nothing"


# --- crashes of a start ---


def test_a_create_without_an_answer_is_repeated_and_recognised():
    world = NodeWorld()
    world.asks("job1")
    world.plane.knobs.lose_answers = 3
    result = world.manager.passes.run()
    assert not world.node().created
    assert any("node p/node-1: CreateTrainingJob" in trouble for trouble in result.troubles)
    world.clock.set(world.clock.now() + HANDLER_LIFETIME)
    world.run_pass()
    assert world.node().created
    assert len(world.training_jobs()) == 1


def test_a_fresh_intent_belongs_to_its_handler():
    world = NodeWorld()
    world.asks("job1")
    world.documents.fails = True
    world.run_pass()
    world.documents.fails = False
    world.run_pass()
    assert not world.node().created
    world.clock.set(world.clock.now() + HANDLER_LIFETIME)
    world.run_pass()
    assert world.node().created


def test_a_node_whose_job_is_gone_before_the_create_ends():
    world = NodeWorld()
    world.asks("job1")
    world.documents.fails = True
    world.run_pass()
    job = world.job("job1")
    gone = replace(job, state=JobState.CANCELLED, claim=None)
    world.store.decisions.commit([Change(before=job, after=gone)])
    world.clock.set(world.clock.now() + HANDLER_LIFETIME)
    world.run_pass()
    assert world.nodes() == []
    assert world.used() == Demand()
    assert world.plane.calls[CREATE] == 0


def test_a_node_that_a_dead_handler_created_goes_on_without_its_job():
    world = NodeWorld()
    world.asks("job1")
    world.plane.knobs.lose_answers = 3
    world.run_pass()
    job = world.job("job1")
    gone = replace(job, state=JobState.CANCELLED, claim=None)
    world.store.decisions.commit([Change(before=job, after=gone)])
    world.clock.set(world.clock.now() + HANDLER_LIFETIME)
    world.deliver()
    assert world.node().created
    world.later(600)
    assert world.nodes() == [], "it has had no jobs for as long as the pool keeps one"
    assert set(world.training_jobs().values()) == {"Stopped"}


def test_an_end_during_the_create_is_left_to_the_handler_that_confirms_it():
    world = NodeWorld()
    world.asks("job1")
    world.documents.fails = True
    world.run_pass()
    world.documents.fails = False
    order = StopOrder(cause=StopCause.EVICTED, by="somebody", at=world.clock.now())
    node = world.changed(world.node(), state=NodeState.STOPPING, stop=order)
    nodes = effects_of(world.manager).nodes
    nodes.take_effect([node])
    assert world.nodes() == [node], "the create may be in progress"
    world.clock.set(world.clock.now() + HANDLER_LIFETIME)
    world.run_pass()
    assert world.node().generation > node.generation
    assert [*world.training_jobs()] == [world.node().training_job]


# --- refused starts ---


def refusals(world: NodeWorld, name: str) -> None:
    knobs = world.plane.knobs
    match name:
        case "capacity":
            knobs.refuse_creates = 1
        case "role":
            knobs.lost_roles = "*"
        case "right":
            knobs.denied = "sagemaker:CreateTrainingJob"
        case "quota":
            knobs.refuse_for_quota = 1
        case "fault":
            knobs.fail_internally = 1
        case "provisioning":
            knobs.fail_provisioning = 1
        case "assuming":
            knobs.fail_assuming = 1


REFUSALS = ("capacity", "role", "right", "quota", "fault", "provisioning", "assuming")


@pytest.mark.parametrize("refusal", REFUSALS)
def test_a_refused_node_is_to_its_job_what_a_refused_start_is(refusal: str):
    """The same refusal, once of a node and once of a whole job."""
    shown = []
    for gpus in (1, 0):
        world = NodeWorld()
        world.asks("job1", gpus)
        refusals(world, refusal)
        world.manager.passes.run()
        world.deliver()
        job, health = world.job("job1"), world.store.health.pool("p").health
        told = (job.state, job.cause, job.message, job.not_before, job.faults, job.refused_in)
        shown.append(re.sub(r"training-job/[\w-]+", "training-job/", f"{told} {health}"))
        assert world.nodes() == []
        assert world.used() == Demand()
        assert job.claim is None
        assert job.retries == 0
    of_node, of_job = shown
    assert of_node == of_job


class Refusing(PlaneClient):
    """Refuses every create for good."""

    creates = 0

    def create_training_job(self, **_request: Any) -> dict[str, Any]:
        self.creates += 1
        error = {"Code": "ValidationException", "Message": "no such image"}
        raise ClientError({"Error": error}, "CreateTrainingJob")


def test_no_loop_of_nodes_follows_a_refusal_for_good():
    world = NodeWorld()
    world.client = client = Refusing(world.plane)
    world.asks("job1")
    world.asks("job2")
    for _ in range(5):
        world.later(60)
    assert world.states() == {"job1": "failed", "job2": "failed"}
    job = world.job("job1")
    assert (job.cause, job.message, job.attempts) == ("rejected", _said("no such image"), 0)
    assert client.creates == 2


def _said(message: str) -> str:
    return f"ValidationException: {message}"


def test_a_name_that_is_taken_costs_the_job_nothing():
    world = NodeWorld()
    world.asks("job1")
    world.documents.fails = True
    world.run_pass()
    world.documents.fails = False
    request = {**world.store.jobs.request("job1"), "TrainingJobName": world.node().training_job}
    world.client.create_training_job(**request)
    world.clock.set(world.clock.now() + HANDLER_LIFETIME)
    world.run_pass()
    assert world.node().created
    assert world.job("job1").state is JobState.PENDING


def test_a_node_without_instances_gives_up_for_the_next_pool():
    world = NodeWorld(nodes_pool(pending_timeout=60_000))
    world.plane.knobs.stick_pending = 1
    world.starts()
    world.deliver()
    assert world.node().pending_since is not None
    world.later(60)
    assert world.nodes() == []
    health = world.store.health.pool("p").health
    assert (health.errors, health.message) == (1, "pool p had no instances for node node-1 in time")
    assert world.job("job1").state is JobState.PENDING


# --- an image that cannot run the agent ---


def fails_without_report(world: NodeWorld, message: str = "ClientError: python3: not found"):
    world.deliver()
    world.plane.advance()
    node = world.node()
    seen = Observation(
        training_job=node.training_job,
        phase=Phase.FAILED,
        at=world.clock.now(),
        running_since=world.clock.now(),
        verdict=Verdict.FAIL,
        message=message,
    )
    world.manager.observe(seen)


def test_an_image_that_cannot_run_the_agent_runs_its_jobs_whole():
    world = NodeWorld()
    node = world.starts()
    fails_without_report(world, f"ClientError: no boto3 for {node.token}")
    (failed,) = world.store.health.pool("p").health.failed_nodes
    assert (failed.tenant, failed.image, failed.failures) == (TENANT, "image", 1)
    assert failed.message == "ClientError: no boto3 for …"
    assert world.nodes() == []
    assert world.run_pass()[-1] == "Start"
    assert world.job("job1").attempt.node == ""
    world.asks("other", tenant="another")
    assert world.run_pass() == ["StartNode"], "another image may be a node"


def test_nodes_are_tried_again_later_and_less_often_each_time():
    world = NodeWorld(nodes_pool(slots=9), runtime=1_000)
    waits = []
    for number in range(3):
        world.starts(f"job{number}")
        fails_without_report(world)
        world.run_pass()
        (failed,) = world.store.health.pool("p").health.failed_nodes
        waits.append((failed.not_before - world.clock.now()) // 3_600_000)
        world.later((failed.not_before - world.clock.now()) / 1000)
    assert waits == [1, 2, 4]


def test_an_operator_lets_nodes_be_tried_at_once():
    from slotq_core.policy.lifecycle.pool_health import forgotten

    world = NodeWorld()
    world.starts()
    fails_without_report(world)
    health = world.store.health.pool("p").health
    assert forgotten(health).failed_nodes == ()


def test_a_node_that_never_reports_ends():
    world = NodeWorld()
    world.starts()
    world.deliver()
    world.later(READY_WITHIN / 1000)
    assert world.node().state is NodeState.STARTING
    world.later(1)
    (failed,) = world.store.health.pool("p").health.failed_nodes
    assert failed.message == "its agent was not ready within 15 minutes"
    assert world.nodes() == []
    assert world.job("job1").attempt.node == ""
    assert world.plane.calls[CREATE] == 2


def test_a_person_who_stops_a_starting_node_makes_its_job_back_off():
    world = NodeWorld()
    node = world.starts()
    world.client.stop_training_job(TrainingJobName=node.training_job)
    world.deliver()
    assert world.nodes() == []
    assert world.job("job1").state is JobState.BACKOFF
    assert world.store.health.pool("p").health.failed_nodes == ()


# --- an end ---


def test_a_node_without_jobs_ends_after_its_keep():
    world = NodeWorld(nodes_pool(keep=60_000), hears=True)
    world.ready()
    job = world.job("job1")
    gone = replace(job, state=JobState.CANCELLED, claim=None)
    world.store.decisions.commit([Change(before=job, after=gone)])
    world.clock.set(world.clock.now() + 60_000)
    assert world.run_pass() == ["EndNode"]
    node = world.node()
    assert (node.state, node.stop.sent) == (NodeState.STOPPING, False)
    assert node.stop.grace_until == world.clock.now() + LEAVE_WITHIN
    assert world.agents.left == ["node-1"]
    assert world.plane.calls["StopTrainingJob"] == 0
    world.later(LEAVE_WITHIN / 1000 - 1)
    assert world.plane.calls["StopTrainingJob"] == 0
    world.later(1)
    assert world.plane.calls["StopTrainingJob"] == 1
    assert world.nodes() == []
    assert world.used() == Demand()
    assert world.agents.left == ["node-1"]


def test_a_node_leaves_by_itself_when_it_is_told():
    world = NodeWorld(nodes_pool(keep=60_000), hears=True)
    world.ready()
    node = world.changed(world.node(), state=NodeState.DRAINING)
    job = world.job("job1")
    gone = replace(job, state=JobState.CANCELLED, claim=None)
    world.store.decisions.commit([Change(before=job, after=gone)])
    world.run_pass()
    assert world.agents.left == [node.name]
    world.manager.observe(ended(world, phase=Phase.COMPLETED))
    assert world.nodes() == []
    assert world.store.health.pool("p").health.failed_nodes == ()


def ended(world: NodeWorld, **fields: Any) -> Observation:
    node = world.node()
    described = {"phase": Phase.FAILED, "verdict": Verdict.FAIL, "message": "killed"} | fields
    return Observation(training_job=node.training_job, at=world.clock.now(), **described)


def test_a_draining_node_stops_when_its_last_job_has_ended():
    world = NodeWorld(hears=True)
    node = world.ready()
    job = world.puts_on(node, "job1", 0)
    order = StopOrder(cause=StopCause.EVICTED, by="high", at=world.clock.now())
    world.changed(world.node(), state=NodeState.DRAINING, stop=order)
    world.run_pass()
    assert world.node().state is NodeState.DRAINING
    done = replace(job, state=JobState.COMPLETED, attempt=None)
    world.store.decisions.commit([Change(before=job, after=done, ended=job.attempt)])
    world.clock.set(world.clock.now() + 1)
    world.run_pass()
    node = world.node()
    assert (node.state, node.stop.by) == (NodeState.STOPPING, "high")
    assert world.agents.left == ["node-1"]


@pytest.mark.parametrize("most", [1, 2, 50])
def test_the_last_jobs_of_a_node_are_evicted_before_sagemakers_longest_runtime(most: int):
    world = NodeWorld(hears=True)
    node = world.ready()
    world.puts_on(node, "job1", 0)
    world.puts_on(world.node(), "job2", 1)
    world.puts_on(world.node(), "job3", 2)
    world.changed(world.node(), state=NodeState.DRAINING)
    assert node.leaves_at is not None
    last = node.leaves_at + LAST_CALL - LAST_ORDER
    world.clock.set(last - 1)
    world.report(world.node(), number=2)
    world.run_pass()
    assert world.node().state is NodeState.DRAINING
    few_changes(world, most)
    world.clock.set(last)
    world.run_pass()
    assert world.node().state is NodeState.STOPPING
    assert world.agents.left == ["node-1"]
    for name in ("job1", "job2", "job3"):
        job = world.job(name)
        assert (job.state, job.evictions) == (JobState.STOPPING, 1)
        assert job.message == "evicted for SageMaker's longest runtime"
    few_changes(world, 50)
    world.manager.observe(ended(world, phase=Phase.COMPLETED))
    assert world.job("job1").state is JobState.PREEMPTED
    assert world.nodes() == []


def test_the_jobs_of_a_node_that_dies_wait_again():
    world = NodeWorld()
    node = world.ready()
    world.puts_on(node, "job1", 0)
    world.puts_on(world.node(), "evicted", 1)
    job = world.job("evicted")
    order = StopOrder(cause=StopCause.EVICTED, by="high", at=world.clock.now(), sent=True)
    stopped = replace(job, state=JobState.STOPPING, attempt=replace(job.attempt, stop=order))
    world.store.decisions.commit([Change(before=job, after=stopped)])
    assert world.manager.observe(ended(world)).calls_for_pass
    assert world.nodes() == []
    assert world.used() == Demand()
    job = world.job("job1")
    assert (job.state, job.retries) == (JobState.BACKOFF, 0)
    assert job.message == "node node-1 ended: killed"
    (attempt,) = world.manager.jobs.status("job1").attempts
    assert attempt.outcome is AttemptOutcome.FAULT
    assert world.job("evicted").state is JobState.PREEMPTED


def test_the_last_report_counts_before_the_end_of_the_node():
    world = NodeWorld(hears=True)
    job = world.puts_on(world.ready(), "job1", 0)
    world.agents.reports["node-1"] = [job]
    world.manager.observe(ended(world))
    assert world.states() == {"job1": "completed"}
    assert world.nodes() == []


def test_an_end_waits_for_a_report_that_cannot_be_read_but_not_for_ever():
    world = NodeWorld(hears=True)
    world.puts_on(world.ready(), "job1", 0)
    world.agents.unreadable = True
    seen = ended(world)
    with pytest.raises(Unavailable):
        world.manager.observe(seen)
    assert world.job("job1").state is JobState.RUNNING
    world.clock.set(world.clock.now() + 180_000)
    world.manager.observe(seen)
    assert world.job("job1").state is JobState.BACKOFF


def test_a_node_with_more_jobs_than_one_transaction_holds_ends_in_parts():
    world = NodeWorld(nodes_pool(gpus=8))
    world.ready()
    for number in range(6):
        world.puts_on(world.node(), f"job{number + 1}", number)
    few_changes(world, 4)
    world.manager.observe(ended(world))
    assert world.nodes() == []
    assert {world.job(f"job{number + 1}").state for number in range(6)} == {JobState.BACKOFF}


def test_a_second_event_of_an_end_changes_nothing():
    world = NodeWorld()
    world.ready()
    seen = ended(world)
    world.manager.observe(seen)
    assert "no job of this queue" in world.manager.observe(seen).ignored


# --- silence ---


def test_a_silent_node_is_stopped_and_keeps_its_jobs_until_it_has_ended():
    world = NodeWorld(hears=True)
    world.puts_on(world.ready(), "job1", 0)
    silent = LEASE + SILENCE_MARGIN
    world.clock.set(world.clock.now() + silent)
    world.run_pass()
    assert world.node().state is NodeState.READY
    world.clock.set(world.clock.now() + 1)
    world.run_pass()
    node = world.node()
    assert (node.state, node.stop.cause, node.stop.sent) == ("stopping", StopCause.STALLED, True)
    assert world.agents.left == [], "nobody would read the order"
    assert world.job("job1").state is JobState.RUNNING
    world.deliver()
    assert world.nodes() == []
    assert world.job("job1").state is JobState.BACKOFF


def test_a_node_whose_report_was_not_read_in_time_goes_on():
    world = NodeWorld(hears=True)
    node = world.ready()
    world.puts_on(node, "job1", 0)
    world.clock.set(world.clock.now() + LEASE + SILENCE_MARGIN + 1)
    effects = effects_of(world.manager).nodes
    effects._take_report = lambda node: world.report(node, number=2)
    world.run_pass()
    assert world.node().state is NodeState.READY
    assert world.plane.calls["StopTrainingJob"] == 0


def test_a_stop_without_an_answer_is_repeated():
    world = NodeWorld()
    world.ready()
    world.clock.set(world.clock.now() + LEASE + SILENCE_MARGIN + 1)
    world.plane.knobs.lose_answers = 3
    world.run_pass()
    assert not world.node().stop.sent
    world.clock.set(world.clock.now() + HANDLER_LIFETIME)
    world.run_pass()
    world.deliver()
    assert world.nodes() == []
