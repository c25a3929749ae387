"""What is sent to Step Functions and to SageMaker, within their bounds, and what errors mean."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.exceptions import ReadTimeoutError
from botocore.stub import Stubber

from slotq_core.adapters.receivers.callbacks import SERVICES, AwsAnswers
from slotq_core.errors import NotDelivered
from slotq_core.model.attempts import Attempt
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.notices import Callback, CallbackKind
from slotq_core.notices import job_answers
from slotq_core.notices.job_answers import JobAnswer, of_end

TASK = Callback(kind=CallbackKind.TASK, token="the-task-token")
STEP = Callback(kind=CallbackKind.PIPELINE, token="a1B2c3D4e5")
MODEL = "s3://bucket/out/job1/output/model.tar.gz"
CLIENTS: dict[CallbackKind, Any] = {}


def ended(state: JobState = JobState.COMPLETED, **fields: Any) -> JobAnswer:
    job = Job(
        name="job1",
        state=state,
        priority=0,
        entry_time=0,
        demand=Demand(slots=1),
        pools=("p5",),
        attempts=1,
        changed_at=1_790_000_000_000,
        **fields,
    )
    attempt = Attempt(
        number=1,
        training_job="job1",
        token="t",
        pool="p5",
        instance_type="ml.p5.48xlarge",
        admitted_at=0,
        artifact=MODEL,
    )
    return of_end(job, attempt, {"accuracy": 0.5})


@pytest.fixture
def stubs() -> Iterator[dict[str, Stubber]]:
    """botocore's own check of each call."""
    made = {}
    for kind, service in SERVICES.items():
        client = boto3.client(
            service,
            region_name="eu-central-1",
            aws_access_key_id="x",
            aws_secret_access_key="x",
        )
        CLIENTS[kind] = client
        made[service] = Stubber(client)
        made[service].activate()
    yield made
    for stub in made.values():
        stub.assert_no_pending_responses()


def answers() -> AwsAnswers:
    return AwsAnswers(CLIENTS)


def test_a_task_succeeds_with_what_is_known_of_the_job(stubs):
    answer = ended()
    said = {"taskToken": "the-task-token", "output": job_answers.task_output(answer)}
    stubs["stepfunctions"].add_response("send_task_success", {}, said)
    assert answers().send(TASK, answer)
    output = json.loads(said["output"])
    assert output["model"] == MODEL
    assert output["metrics"] == {"accuracy": 0.5}


def test_a_time_box_is_a_failure_with_the_model_in_its_cause(stubs):
    answer = ended(JobState.FAILED, cause="max_runtime", message="it ran into its time box")
    error, cause = job_answers.task_failure(answer)
    said = {"taskToken": "the-task-token", "error": "SlotQ.MaxRuntimeExceeded", "cause": cause}
    stubs["stepfunctions"].add_response("send_task_failure", {}, said)
    assert answers().send(TASK, answer)
    assert error == "SlotQ.MaxRuntimeExceeded"
    assert json.loads(cause)["model"] == MODEL
    assert json.loads(cause)["reason"] == "it ran into its time box"
    assert job_answers.step_failure(answer) == (
        f"SlotQ.MaxRuntimeExceeded: {MODEL}: it ran into its time box"
    )


def test_a_step_gets_outputs_and_the_same_answer_the_same_request_token(stubs):
    tokens = []
    stub = stubs["sagemaker"]
    CLIENTS[CallbackKind.PIPELINE].meta.events.register(
        "provide-client-params.sagemaker.*",
        lambda params, **_: tokens.append(params["ClientRequestToken"]),
    )
    for _ in range(2):
        stub.add_response(
            "send_pipeline_execution_step_success", {"PipelineExecutionArn": "arn:aws:x"}
        )
        assert answers().send(STEP, ended())
    stub.add_response("send_pipeline_execution_step_failure", {"PipelineExecutionArn": "arn:aws:x"})
    assert answers().send(STEP, ended(JobState.CANCELLED))
    first, again, other = tokens
    assert first == again != other


@pytest.mark.parametrize(
    "text", ["x" * 400_000, "é" * 400_000, '"\\' * 200_000, "\0" * 400_000, "💥" * 400_000, ""]
)
def test_every_answer_is_within_the_bounds(stubs, text):
    metrics = {f"{number:03}{'é' * 250}": 1e-99 for number in range(400)}
    for answer in (
        JobAnswer(error="", reason="", facts={"model": text}, metrics=metrics),
        JobAnswer(error="E" * 300, reason=text, facts={"model": MODEL}, metrics=metrics),
    ):
        if answer.error:
            error, cause = job_answers.task_failure(answer)
            assert len(error) <= 256
            assert len(cause.encode()) <= 32_768
            assert json.loads(cause)["model"] == MODEL
            assert len(job_answers.step_failure(answer)) <= 256
        else:
            outputs = job_answers.step_outputs(answer)
            assert len(outputs) == 50
            assert all(len(each["Name"]) <= 256 for each in outputs)
            assert all(len(each["Value"]) <= 1024 for each in outputs)
            short = JobAnswer(error="", reason="", facts={"model": MODEL}, metrics=metrics)
            assert len(job_answers.task_output(short).encode()) <= 262_144


@pytest.mark.parametrize("code", ["TaskTimedOut", "TaskDoesNotExist", "InvalidToken"])
def test_a_task_that_is_over_is_no_error(stubs, code):
    stub = stubs["stepfunctions"]
    for operation in ("send_task_heartbeat", "send_task_success", "send_task_failure"):
        stub.add_client_error(operation, code, "the-task-token")
    assert not answers().still_waits(TASK)
    assert not answers().send(TASK, ended())
    assert not answers().send(TASK, ended(JobState.FAILED))


@pytest.mark.parametrize(
    "code",
    [
        "ThrottlingException",
        "KmsAccessDeniedException",
        "KmsInvalidStateException",
        "KmsThrottlingException",
        "AccessDeniedException",
        "InvalidOutput",
    ],
)
def test_every_other_error_is_named_without_its_text(stubs, code):
    stubs["stepfunctions"].add_client_error("send_task_success", code, "the-task-token is wrong")
    with pytest.raises(NotDelivered) as raised:
        answers().send(TASK, ended())
    assert str(raised.value) == code
    stubs["stepfunctions"].add_client_error("send_task_heartbeat", code, "the-task-token")
    with pytest.raises(NotDelivered, match=f"^{code}$"):
        answers().still_waits(TASK)


def test_the_errors_of_a_step(stubs):
    stub = stubs["sagemaker"]
    stub.add_client_error("send_pipeline_execution_step_success", "ResourceNotFound")
    assert not answers().send(STEP, ended())
    stub.add_client_error("send_pipeline_execution_step_success", "ConflictException")
    with pytest.raises(NotDelivered, match="ConflictException"):
        answers().send(STEP, ended())


def test_no_answer_at_all_is_named():
    class Mute:
        def send_task_heartbeat(self, **_: str) -> None:
            raise ReadTimeoutError(endpoint_url="https://states.example/the-task-token")

    with pytest.raises(NotDelivered) as raised:
        AwsAnswers({CallbackKind.TASK: Mute()}).still_waits(TASK)
    assert str(raised.value) == "ReadTimeoutError"


def test_superseded_and_forgotten_say_so():
    for answer, error in (
        (job_answers.superseded("job1"), "SlotQ.Superseded"),
        (job_answers.forgotten("job1"), "SlotQ.Forgotten"),
    ):
        assert job_answers.task_failure(answer)[0] == error
        assert "job1" in job_answers.step_failure(answer)
