"""The state machines of docs/step-functions.md and the queue: from an execution to a training job,
and back."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from slotq.local.endpoint import ACCOUNT
from tests.e2e.pages.blocks import blocks
from tests.e2e.waiting import until
from tests.functional.account import HOUR, Account, sample
from tests.functional.state_machines import SESSION, StepFunctions, definition, step_functions
from tests.functional.test_step_functions import GIVEN, MACHINES, ended

(OUTPUT,) = [block.text for block in blocks("docs/step-functions.md") if "ended_at" in block.text]
SHOWN = json.loads(OUTPUT)
"""The output of a task, as on the page."""
URGENT = [{"Key": "priority", "Value": "20"}]


class World:
    """A queue, Step Functions, and what goes from one to the other."""

    def __init__(self, account: Account) -> None:
        self.account = account
        self._one = threading.RLock()
        self._send = account.send
        self.states: StepFunctions
        self.submitted: list[str] = []
        """The names of the jobs, once the queue has answered."""
        self.lost: list[int] = []
        """The statuses that come in the place of the queue's next answers."""

    def send(self, event: Any) -> dict[str, Any]:
        """Invoke the queue's function: one invocation at a time."""
        with self._one:
            return self._send(event)

    def call(self, event: dict[str, Any]) -> dict[str, Any]:
        """Answer a request of Step Functions."""
        answer = self.send(event)
        if self.lost:
            answer = {"statusCode": self.lost.pop(0), "body": "{}"}
        self.submitted.append(json.loads(event["body"])["TrainingJobName"])
        return answer

    def client(self, service: str) -> Any:
        own = service == "stepfunctions"
        return self.states.client if own else Account.client(self.account, service)

    def start(self, machine: str) -> tuple[str, str]:
        """Start an execution of a definition. Returns its ARN, and its job's name once it runs."""
        execution = self.states.start(machine, **GIVEN)
        self.runs(1)
        return execution, self.submitted[0]

    def runs(self, submissions: int) -> None:
        """Wait for so many submissions, and let the queue do what follows."""
        until(lambda: len(self.submitted) >= submissions, "it does not submit")
        self.account.settle()

    def tick(self) -> None:
        self.account.pass_time(60_000)
        self.account.send("tick")
        self.account.settle()

    def fails(self, training_job: str) -> None:
        self.account.plane.job(training_job).status = "Failed"
        event = sample("training-failed")
        event["detail"]["TrainingJobName"] = training_job
        event["detail"].pop("Tags", None)
        self.account.send(event)
        self.account.settle()


def share(world: World, role: str) -> None:
    """Share the queue between projects, of which a role is a member of the first."""
    event = sample("apply-configuration")
    event["queryStringParameters"] = event["multiValueQueryStringParameters"] = None
    document = json.loads(event["body"])
    document["configuration"]["projects"][0]["members"] = [f"arn:aws:iam::{ACCOUNT}:role/{role}"]
    status, said = world.account.call({**event, "body": json.dumps(document)})
    assert status == 200, said


@pytest.fixture
def world(account: Account, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    made = World(account)
    monkeypatch.setenv("SLOTQ_CALLBACKS", "task")
    monkeypatch.setattr("app.client", made.client)
    monkeypatch.setattr(account, "send", made.send)
    with step_functions(made.call, monkeypatch) as made.states:
        yield made


@pytest.mark.parametrize("machine", MACHINES)
def test_the_role_that_signs_is_the_submitter_and_the_job_names_its_execution(machine, world):
    execution, name = world.start(definition(machine))
    assert world.account.job(name)["submitter"] == SESSION
    tags = {tag["Key"]: tag["Value"] for tag in world.account.plane.job(name).request["Tags"]}
    assert tags["execution"] == execution


@pytest.mark.parametrize("machine", MACHINES)
def test_it_waits_through_an_eviction_and_gets_the_model(machine, world):
    execution, name = world.start(definition(machine))
    assert world.account.state(name) == "running"
    two = {"InstanceType": "ml.p4d.24xlarge", "InstanceCount": 2, "VolumeSizeInGB": 1}
    world.account.submit("urgent", Tags=URGENT, ResourceConfig=two)
    world.account.settle()
    world.tick()
    assert world.account.state(name) == "preempted"
    assert world.states.status(execution) == "RUNNING"
    world.account.completes("urgent")
    world.tick()
    resumed = world.account.job(name)["attempts"][-1]["training_job"]
    assert resumed != name
    world.account.pass_time(HOUR)
    world.account.settle()
    world.tick()
    end = ended(world.states, execution)
    assert (end["job"], end["state"], end["training_job"]) == (name, "completed", resumed)
    assert (end["attempts"], end["evictions"]) == (2, 1)
    assert end["model"].startswith("s3://my-bucket/training/models/")
    assert [*end] == [*SHOWN]


def test_a_failure_is_tried_again_and_ends_with_the_reason(world):
    execution, first = world.start(definition("training"))
    world.fails(first)
    world.tick()
    world.runs(2)
    second = world.submitted[1]
    assert second != first
    assert world.account.state(second) == "running"
    world.fails(second)
    world.tick()
    end = ended(world.states, execution)
    assert world.states.status(execution) == "FAILED"
    assert end["error"] == "SlotQ.Failed"
    cause = json.loads(end["cause"])
    assert cause["job"] == second
    assert {*cause} == {*SHOWN} - {"metrics"} | {"reason"}
    assert cause["reason"] == world.account.job(second)["message"] != ""


def test_a_time_box_ends_with_what_was_saved(world):
    execution, name = world.start(definition("training").replace("86400", "600"))
    world.account.pass_time(601_000)
    world.account.settle()
    world.tick()
    end = ended(world.states, execution)
    assert world.states.status(execution) == "SUCCEEDED"
    assert (end["job"], end["state"]) == (name, "failed")
    assert end["model"].startswith("s3://")


def test_a_stopped_execution_cancels_its_job_by_the_next_heartbeat(world):
    execution, name = world.start(definition("training"))
    world.tick()
    assert world.account.state(name) == "running"
    world.states.stop(execution)
    world.tick()
    world.tick()
    assert world.account.state(name) == "cancelled"


def test_a_cancelled_job_ends_its_execution(world):
    execution, name = world.start(definition("training"))
    world.account.call({**sample("cancel-job"), "path": f"/jobs/{name}"})
    world.account.settle()
    world.tick()
    assert ended(world.states, execution)["error"] == "SlotQ.Cancelled"


@pytest.mark.parametrize("machine", MACHINES)
def test_a_lost_answer_makes_no_second_job(machine, world):
    world.lost = [504]
    execution, name = world.start(definition(machine))
    world.runs(2)
    assert world.submitted == [name, name]
    world.tick()
    assert world.states.status(execution) == "RUNNING"
    world.account.completes(name)
    world.tick()
    assert ended(world.states, execution)["job"] == name


def test_a_queue_that_was_silent_goes_on_with_the_same_job(world):
    execution, name = world.start(definition("training", HeartbeatSeconds=1))
    world.runs(2)
    assert world.account.state(name) == "running"
    world.account.completes(name)

    def has_ended() -> bool:
        world.tick()
        return world.states.status(execution) != "RUNNING"

    until(has_ended, "it does not hear of the end")
    assert world.states.end(execution)["job"] == name
    assert {*world.submitted} == {name}


@pytest.mark.parametrize("machine", MACHINES)
def test_in_a_shared_queue_the_role_is_a_member_of_its_project(machine, world):
    share(world, "Submitter")
    world.lost = [504]
    execution, name = world.start(definition(machine))
    world.runs(2)
    world.account.completes(name)
    world.tick()
    end = ended(world.states, execution)
    assert (end["job"], end["project"]) == (name, "vision")


def test_in_a_shared_queue_another_role_is_refused(world):
    share(world, "Research")
    execution = world.states.start(definition("training"), **GIVEN)
    end = ended(world.states, execution)
    assert end["error"] == "ApiGateway.403"
    assert "project" in json.loads(end["cause"])["message"]


def test_a_queue_that_answers_no_tasks_says_so(world, monkeypatch):
    monkeypatch.setenv("SLOTQ_CALLBACKS", "")
    execution = world.states.start(definition("training"), **GIVEN)
    end = ended(world.states, execution)
    assert end["error"] == "ApiGateway.400"
    assert "TaskCallbacks" in end["cause"]
