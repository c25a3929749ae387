"""Observations from SageMaker's descriptions and events: phase, verdict, time."""

# ruff: noqa: E501, PLR0917 - a row of a table stays one line

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from slotq_core.adapters.sagemaker.observations import observation_of, observation_of_event
from slotq_core.errors import NotUnderstood, Unavailable
from slotq_core.ports.training import Phase, Verdict
from tests.unit.sagemaker.adapter_world import (
    World,
    attempt,
    job,
    request,
)


def test_describe_and_events_give_the_same_observations() -> None:
    world = World()
    assert world.training.create(request(), job(), attempt()).verdict is Verdict.OK
    assert world.training.describe("job1").phase is Phase.STARTING
    world.until(1)
    seen = world.training.describe("job1")
    assert (seen.phase, seen.at) == (Phase.RUNNING, 0)
    assert seen.artifact == "s3://bucket/out/job1/output/model.tar.gz"
    assert seen.checkpoints == "s3://bucket/checkpoints"
    assert world.training.stop("job1").verdict is Verdict.OK
    assert world.training.describe("job1").phase is Phase.STOPPING
    world.until(5)
    seen = world.training.describe("job1")
    assert (seen.phase, seen.at, seen.verdict) == (Phase.STOPPED, 2000, Verdict.OK)
    told = [observation_of(event["detail"], at=99) for event in world.events]
    assert [(one.phase, one.at) for one in told] == [
        (Phase.STARTING, 0),
        (Phase.RUNNING, 0),
        (Phase.RUNNING, 0),
        (Phase.STOPPING, 1000),
        (Phase.STOPPED, 2000),
    ]
    # Only an event has the tags, and so the token; only an answer says what is billed.
    assert seen.billed == 2000
    assert told[-1] == replace(seen, token=attempt().token, billed=None)


def test_the_maximum_pending_time_is_a_capacity_error() -> None:
    world = World(stick_pending=2)
    patient = {"MaxRuntimeInSeconds": 100, "MaxPendingTimeInSeconds": 7200}
    for name in ("job1", "job2"):
        asked = request(name, StoppingCondition=patient)
        world.training.create(asked, job(name), attempt(name=name))
    world.until(3600)
    world.training.stop("job2")
    assert world.training.describe("job1").phase is Phase.STARTING
    world.until(7200)
    seen = world.training.describe("job1")
    assert (seen.phase, seen.verdict, seen.at) == (Phase.FAILED, Verdict.BACK_OFF, 7_200_000)
    assert "maximum pending time" in seen.message
    told = observation_of(world.events[-1]["detail"], at=7_200_000)
    assert replace(told, token=None) == replace(seen, billed=None)
    assert world.training.describe("job2").phase is Phase.STOPPED


ODD_EVENTS = [
    ({}, "has no detail"),
    ({"detail": None}, "has no detail"),
    ({"detail": "job1"}, "or its detail is not an object"),
    ({"detail": {}}, "names no training job"),
    ({"detail": {"TrainingJobName": 7}}, "names no training job"),
    ({"detail": {"TrainingJobName": "job1"}}, "unknown TrainingJobStatus ''"),
    ({"detail": {"TrainingJobName": "job1", "TrainingJobStatus": "Paused"}}, "unknown TrainingJobStatus 'Paused'"),
    ({"detail": {"TrainingJobName": "job1", "TrainingJobStatus": "Failed", "CheckpointConfig": "x"}}, "does not have SageMaker's form (AttributeError)"),
    ({"detail": {"TrainingJobName": "job1", "TrainingJobStatus": "Stopped", "CreationTime": 0, "StoppingCondition": {"MaxPendingTimeInSeconds": "x"}}}, "does not have SageMaker's form (ValueError)"),
]  # fmt: skip


@pytest.mark.parametrize(("event", "reason"), ODD_EVENTS)
def test_a_malformed_event_is_not_understood(event: dict[str, Any], reason: str) -> None:
    with pytest.raises(NotUnderstood) as raised:
        observation_of_event(event, at=0)
    assert reason in str(raised.value)


def test_an_unknown_status_counts_as_no_answer() -> None:
    world = World()
    world.client.describe_training_job = lambda **_: {"TrainingJobStatus": "Paused"}
    with pytest.raises(Unavailable, match="unknown TrainingJobStatus 'Paused'"):
        world.training.describe("job1")


ENDS = [
    # status, secondary, FailureReason, phase, verdict, message
    ("Completed", "Completed", None, Phase.COMPLETED, Verdict.OK, ""),
    ("Stopped", "Stopped", None, Phase.STOPPED, Verdict.OK, ""),
    ("Stopped", "MaxRuntimeExceeded", None, Phase.FAILED, Verdict.FAIL, "it reached its maximum runtime"),
    ("Stopped", "MaxWaitTimeExceeded", None, Phase.FAILED, Verdict.FAIL, "it reached its maximum wait time"),
    ("Deleting", "Stopped", None, Phase.STOPPED, Verdict.OK, ""),
    ("Failed", "Failed", "CapacityError: Unable to provision requested ML compute capacity.", Phase.FAILED, Verdict.BACK_OFF, "CapacityError"),
    ("Failed", "Failed", "InsufficientCapacityError: no capacity in the training plan", Phase.FAILED, Verdict.BACK_OFF, "InsufficientCapacityError"),
    ("Failed", "Failed", "ClientError: InsufficientCapacityError: none", Phase.FAILED, Verdict.BACK_OFF, "InsufficientCapacityError"),
    ("Failed", "Failed", "AlgorithmError: InsufficientCapacityError, exit code: 1", Phase.FAILED, Verdict.FAIL, "AlgorithmError"),
    ("Failed", "Failed", "InternalServerError: We encountered an internal error.", Phase.FAILED, Verdict.REQUEUE, "InternalServerError"),
    ("Failed", "Failed", "ClientError: SageMaker was unable to assume the role 'arn:aws:iam::1:role/r'", Phase.FAILED, Verdict.ROLE_LACKS_RIGHTS, "unable"),
    ("Failed", "Failed", "ClientError: TrainingHostAgent Initialization failed:InvalidInputException: SageMaker is unable to perform: sts:AssumeRole on the role.", Phase.FAILED, Verdict.ROLE_LACKS_RIGHTS, "unable"),
    ("Failed", "Failed", "ClientError: Not enough free addresses in subnet subnet-1", Phase.FAILED, Verdict.REQUEUE, "subnet"),
    ("Failed", "Failed", "ClientError: Data download failed: Access denied (403) for s3://bucket/data", Phase.FAILED, Verdict.FAIL, "403"),
    ("Failed", "Failed", "AlgorithmError: Could not assume role arn:aws:iam::1:role/mine, exit code: 1", Phase.FAILED, Verdict.FAIL, "mine"),
    ("Failed", "Failed", "AlgorithmError: , exit code: 1", Phase.FAILED, Verdict.FAIL, "AlgorithmError"),
    ("Failed", "Failed", "AlgorithmError: CapacityError: mine, exit code: 1", Phase.FAILED, Verdict.FAIL, "AlgorithmError"),
    ("Failed", "Failed", "ClientError: Data download failed", Phase.FAILED, Verdict.FAIL, "ClientError"),
    ("Failed", "Failed", None, Phase.FAILED, Verdict.FAIL, "no FailureReason"),
    ("InProgress", "Starting", None, Phase.STARTING, Verdict.OK, ""),
    ("InProgress", "Pending", None, Phase.STARTING, Verdict.OK, ""),
    ("InProgress", None, None, Phase.STARTING, Verdict.OK, ""),
    ("InProgress", "Downloading", None, Phase.RUNNING, Verdict.OK, ""),
    ("InProgress", "Training", None, Phase.RUNNING, Verdict.OK, ""),
    ("InProgress", "Uploading", None, Phase.RUNNING, Verdict.OK, ""),
    ("Stopping", "Stopping", None, Phase.STOPPING, Verdict.OK, ""),
    ("Stopping", "MaxRuntimeExceeded", None, Phase.STOPPING, Verdict.OK, ""),
]  # fmt: skip


@pytest.mark.parametrize(("status", "secondary", "reason", "phase", "verdict", "message"), ENDS)
def test_statuses_give_phase_verdict_and_message(
    status: str, secondary: str, reason: str, phase: Phase, verdict: Verdict, message: str
) -> None:
    seen = observation_of(
        {
            "TrainingJobName": "job1",
            "TrainingJobStatus": status,
            "SecondaryStatus": secondary,
            "FailureReason": reason,
        },
        at=5,
    )
    assert (seen.training_job, seen.phase, seen.verdict, seen.at) == ("job1", phase, verdict, 5)
    assert message in seen.message


TIMES = [
    (1583831889050, 1583831889050),
    (1583831889050.0, 1583831889050),
    ("1583831889050", 1583831889050),
    (datetime(2020, 3, 10, 9, 18, 9, 122999, tzinfo=UTC), 1583831889123),
    (None, 5),
    ("soon", 5),
]


@pytest.mark.parametrize(("value", "at"), TIMES)
def test_times_of_every_format_are_read(value: Any, at: int) -> None:
    detail = {
        "TrainingJobName": "job1",
        "TrainingJobStatus": "Stopped",
        "SecondaryStatus": "Stopped",
        "TrainingEndTime": value,
        "ModelArtifacts": None,
        "CheckpointConfig": None,
        "Tags": {},
    }
    assert observation_of(detail, at=5).at == at


STARTING, DOWNLOADING = ("Starting", 1_000), ("Downloading", 2_000)
AWAY, RESTARTING, AGAIN = ("Interrupted", 5_000), ("Restarting", 6_000), ("Starting", 7_000)
SINCE = [
    # the transitions, and since when it has its instances or is without them
    ([STARTING, DOWNLOADING], 1_000),
    ([STARTING, DOWNLOADING, AWAY], 5_000),
    ([STARTING, DOWNLOADING, AWAY, RESTARTING], 5_000),
    ([STARTING, DOWNLOADING, AWAY, RESTARTING, AGAIN, ("Downloading", 8_000)], 8_000),
    ([STARTING, AWAY, ("Training", 9_000), ("Uploading", 12_000)], 9_000),
    ([], 20_000),
]


@pytest.mark.parametrize(("transitions", "since"), SINCE)
def test_transitions_say_since_when_it_has_instances(transitions, since) -> None:
    detail = {
        "TrainingJobName": "job1",
        "TrainingJobStatus": "InProgress",
        "SecondaryStatus": transitions[-1][0] if transitions else "Training",
        "LastModifiedTime": 20_000,
        "SecondaryStatusTransitions": [
            {"Status": status, "StartTime": start} for status, start in transitions
        ],
    }
    assert observation_of(detail, at=99).changed_at == since


@pytest.mark.parametrize("odd", ["?", 7, [None], [{}], [{"Status": []}], [{"Status": "Training"}]])
def test_odd_transitions_are_ignored(odd) -> None:
    detail = {
        "TrainingJobName": "job1",
        "TrainingJobStatus": "InProgress",
        "SecondaryStatus": "Training",
        "LastModifiedTime": 20_000,
        "SecondaryStatusTransitions": odd,
    }
    assert observation_of(detail, at=99).changed_at == 20_000
