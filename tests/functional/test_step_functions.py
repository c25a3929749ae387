"""The state machines of docs/step-functions.md in an interpreter."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.credentials import Credentials

from tests.e2e.pages.blocks import blocks
from tests.e2e.waiting import until
from tests.functional import state_machines
from tests.functional.state_machines import (
    SESSION,
    StepFunctions,
    definition,
    step_functions,
    submit_module,
)

(START,) = [block.text for block in blocks("docs/step-functions.md") if "--input" in block.text]
GIVEN = json.loads(START.partition("--input '")[2].rpartition("'")[0])
"""As on the page."""
MACHINES = ("training", "private")


class Door:
    """Takes submissions and keeps them; `refuses`: the statuses of the next answers."""

    def __init__(self) -> None:
        self.callers: list[str] = []
        self.bodies: list[dict[str, Any]] = []
        self.refuses: list[int] = []

    def __call__(self, event: dict[str, Any]) -> dict[str, Any]:
        assert (event["httpMethod"], event["path"]) == ("POST", "/add-job")
        self.callers.append(event["requestContext"]["identity"]["userArn"])
        self.bodies.append(json.loads(event["body"]))
        status = self.refuses.pop(0) if self.refuses else 202
        return {"statusCode": status, "body": json.dumps({"message": "said"})}

    @property
    def token(self) -> str:
        """The token of the latest submission."""
        return str(self.bodies[-1]["slotq:callback"]["task_token"])


@pytest.fixture
def door() -> Door:
    return Door()


@pytest.fixture
def states(door: Door, monkeypatch: pytest.MonkeyPatch) -> Iterator[StepFunctions]:
    with step_functions(door, monkeypatch) as made:
        yield made


def started(states: StepFunctions, door: Door, machine: str, **changes: Any) -> str:
    execution = states.start(definition(machine, **changes), **GIVEN)
    until(lambda: door.bodies, "it does not submit")
    return execution


def ended(states: StepFunctions, execution: str) -> dict[str, Any]:
    until(lambda: states.status(execution) != "RUNNING", "it does not end")
    return states.end(execution)


@pytest.mark.parametrize("machine", MACHINES)
def test_it_submits_as_its_role_and_waits_for_the_end(machine, states, door):
    execution = started(states, door, machine)
    (body,) = door.bodies
    assert door.callers == [SESSION]
    assert body["slotq:callback"]["when_abandoned"] == "cancel"
    assert {"Key": "execution", "Value": execution} in body["Tags"]
    assert body["HyperParameters"] == GIVEN["hyperparameters"]
    assert states.status(execution) == "RUNNING"
    states.client.send_task_success(taskToken=door.token, output='{"model": "s3://m"}')
    assert ended(states, execution) == {"model": "s3://m"}


def test_stop(states, door):
    execution = started(states, door, "training")
    states.stop(execution)
    assert states.status(execution) == "ABORTED"
    with pytest.raises(states.client.exceptions.InvalidToken):
        states.client.send_task_heartbeat(taskToken=door.token)


@pytest.mark.parametrize("machine", MACHINES)
def test_a_time_box_is_caught_by_its_name_and_ends_with_the_model(machine, states, door):
    execution = started(states, door, machine)
    states.client.send_task_failure(
        taskToken=door.token, error="SlotQ.MaxRuntimeExceeded", cause='{"model": "s3://m"}'
    )
    assert ended(states, execution) == {"model": "s3://m"}
    assert states.status(execution) == "SUCCEEDED"


def test_a_failure_is_tried_once_more_under_another_name_and_ends_with_its_cause(states, door):
    execution = started(states, door, "training")
    states.client.send_task_failure(taskToken=door.token, error="SlotQ.Failed", cause="exit 1")
    until(lambda: len(door.bodies) == 2, "it does not try again")
    first, second = door.bodies
    assert first["TrainingJobName"].endswith("-1")
    assert second["TrainingJobName"] == first["TrainingJobName"][:-1] + "2"
    assert second["CheckpointConfig"] == first["CheckpointConfig"]
    states.client.send_task_failure(taskToken=door.token, error="SlotQ.Failed", cause="exit 2")
    assert ended(states, execution) == {"error": "SlotQ.Failed", "cause": "exit 2"}


def test_another_end_is_no_reason_to_try_again(states, door):
    execution = started(states, door, "training")
    states.client.send_task_failure(taskToken=door.token, error="SlotQ.Cancelled", cause="by ada")
    assert ended(states, execution) == {"error": "SlotQ.Cancelled", "cause": "by ada"}
    assert len(door.bodies) == 1


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("machine", MACHINES)
def test_a_busy_queue_gets_the_same_job_again_with_another_token(machine, status, states, door):
    door.refuses = [status]
    execution = started(states, door, machine)
    until(lambda: len(door.bodies) == 2, "it does not submit again")
    first, second = (dict(body) for body in door.bodies)
    assert first.pop("slotq:callback") != second.pop("slotq:callback")
    assert first == second
    states.client.send_task_success(taskToken=door.token, output="{}")
    assert ended(states, execution) == {}


@pytest.mark.parametrize(
    ("machine", "error"), [("training", "ApiGateway.400"), ("private", "QueueRefused")]
)
def test_a_refusal_ends_the_execution_with_the_queues_words(machine, error, states, door):
    door.refuses = [400]
    execution = started(states, door, machine)
    end = ended(states, execution)
    assert end["error"] == error
    assert "said" in end["cause"]
    assert len(door.bodies) == 1


def test_a_queue_that_cannot_be_reached_is_asked_again(states, monkeypatch):
    monkeypatch.setenv("SLOTQ_ENDPOINT", "http://127.0.0.1:1/prod")
    submit = submit_module()
    with pytest.raises(submit.QueueUnavailable):
        submit.handler({}, None)
    (retried,) = json.loads(definition("private"))["States"]["Train"]["Retry"]
    assert submit.QueueUnavailable.__name__ in retried["ErrorEquals"]
    assert submit.QueueRefused.__name__ not in retried["ErrorEquals"]


def test_a_request_that_the_role_has_not_signed_never_reaches_the_queue(states, door, monkeypatch):
    keys = state_machines._KEYS
    monkeypatch.setattr(
        state_machines, "_KEYS", Credentials(keys.access_key, "another", keys.token)
    )
    execution = states.start(definition("training"), **GIVEN)
    assert ended(states, execution)["error"] == "ApiGateway.403"
    assert door.bodies == []


def test_silence_of_the_queue_submits_the_same_job_again(states, door):
    """The queue then shows life to the new token."""
    started(states, door, "training", HeartbeatSeconds=1)
    until(lambda: len(door.bodies) >= 2, "it does not submit again")
    first, second = (dict(body) for body in door.bodies[:2])
    assert first.pop("slotq:callback") != second.pop("slotq:callback")
    assert first == second
