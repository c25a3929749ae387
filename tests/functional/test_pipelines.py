"""Callback steps of SageMaker Pipelines: their messages become jobs of the queue.

The Pipelines API is a double (`account.FakeWaits`), because moto has none of its callbacks."""

import json
from typing import Any

import pytest

import app
from slotq_core.api.pipeline_steps import MOST_TRIES
from tests.functional.account import HOUR, Account, forget, sample
from tests.functional.pipelines_double import (
    EXECUTION,
    QUEUE_ARN,
    SUBMITTER,
    TOKEN,
    ExecutionsDouble,
    SubmittersDouble,
    delivered,
    message,
)
from tests.functional.sharing import share

REQUEST: dict[str, Any] = {
    key: value
    for key, value in json.loads(sample("add-job")["body"]).items()
    if key != "TrainingJobName"
}
DONE: dict[str, list[Any]] = {"batchItemFailures": []}
AGAIN = {"batchItemFailures": [{"itemIdentifier": "message-0"}]}


@pytest.fixture
def ssm() -> SubmittersDouble:
    return SubmittersDouble()


@pytest.fixture
def executions(account: Account) -> ExecutionsDouble:
    return ExecutionsDouble(account.waits)


class Failures:
    """What the double of Pipelines has heard."""

    def __init__(self, account: Account) -> None:
        self._waits = account.waits

    @property
    def failed(self) -> dict[str, str]:
        """Reasons by token."""
        operation = "send_pipeline_execution_step_failure"
        told = [request for called, request in self._waits.calls if called == operation]
        assert all(len(request["FailureReason"]) <= 256 for request in told)
        return {request["CallbackToken"]: request["FailureReason"] for request in told}

    @property
    def succeeded(self) -> dict[str, dict[str, str]]:
        """Outputs by token."""
        operation = "send_pipeline_execution_step_success"
        return {
            request["CallbackToken"]: {
                it["Name"]: it["Value"] for it in request["OutputParameters"]
            }
            for called, request in self._waits.calls
            if called == operation
        }


@pytest.fixture
def pipelines(account: Account) -> Failures:
    return Failures(account)


@pytest.fixture
def steps(
    account: Account,
    ssm: SubmittersDouble,
    executions: ExecutionsDouble,
    monkeypatch: pytest.MonkeyPatch,
) -> Any:
    """Deliver messages to the function that takes them."""
    monkeypatch.setenv("SLOTQ_CALLBACKS", "pipeline")
    account.send("tick")  # takes the pools of the settings in

    def client(service: str) -> Any:
        own = {"ssm": ssm, "sagemaker": executions}
        return own.get(service) or account.client(service)

    def send(*bodies: Any, **how: Any) -> dict[str, Any]:
        with monkeypatch.context() as patch:
            patch.setenv("SLOTQ_SERVES", "pipelines")
            patch.setenv("SLOTQ_SUBMITTERS", "/slotq/slotq/pipelines/")
            forget()
            app.submitters.cache_clear()
            patch.setattr(app, "client", client)
            answer = account.send(delivered(*bodies, **how))
        forget()
        return answer

    return send


@pytest.fixture
def one_role(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLOTQ_EXECUTION_ROLES", REQUEST["RoleArn"])


def the_job(account: Account) -> dict[str, Any]:
    (job,) = account.call("list-jobs")[1]["jobs"]
    return account.job(job["name"])


def test_a_message_becomes_a_job_of_the_role_behind_its_queue(account: Account, steps):
    assert steps(message(REQUEST)) == DONE
    job = the_job(account)
    assert job["submitter"] == SUBMITTER
    assert job["state"] == "pending"
    assert job["name"].startswith("weekly-abcdefghijkl-")
    account.settle()
    assert account.state(job["name"]) == "running"


def test_the_name_of_a_job_does_not_show_the_token(account: Account, steps):
    steps(message(REQUEST))
    assert TOKEN not in json.dumps(the_job(account))


def test_nothing_in_a_message_says_who_submits(account: Account, steps):
    """A member of the message, or of its arguments, that looks like an identity is no identity."""
    others = {"submitter": "arn:aws:sts::123456789012:assumed-role/Admin/eve"}
    signed = {"requestContext": {"identity": {"userArn": others["submitter"]}}}
    body = {**message(REQUEST), **others, **signed}
    body["arguments"] |= others
    assert steps(body) == DONE
    assert the_job(account)["submitter"] == SUBMITTER


def test_values_of_pipeline_variables_are_put_in(account: Account, steps):
    request = {
        **REQUEST,
        "ResourceConfig": {
            **REQUEST["ResourceConfig"],
            "InstanceCount": {"slotq:argument": "v1", "kind": "integer"},
        },
        "HyperParameters": {"epochs": {"slotq:argument": "v2"}},
    }
    sent = message(request)
    sent["arguments"] |= {"v1": "2", "v2": '", "RoleArn": "arn:aws:iam::1:role/x'}
    assert steps(sent) == DONE
    account.settle()
    name = the_job(account)["name"]
    found = account.plane.handle("DescribeTrainingJob", {"TrainingJobName": name})
    assert found["ResourceConfig"]["InstanceCount"] == 2
    assert found["HyperParameters"] == {"epochs": '", "RoleArn": "arn:aws:iam::1:role/x'}
    assert found["RoleArn"] == REQUEST["RoleArn"]


def test_an_oversized_request_fails_the_step(pipelines, steps):
    request = {**REQUEST, "HyperParameters": {f"h{n}": "x" * 2500 for n in range(450)}}
    assert steps(message(request)) == DONE
    assert "larger than 1,000,000 bytes" in pipelines.failed[TOKEN]


def test_a_message_that_comes_twice_is_one_submission(account: Account, pipelines, steps):
    sent = message(REQUEST)
    assert steps(sent) == steps(sent) == steps(sent, sent) == DONE
    assert the_job(account)["state"] == "pending"
    assert pipelines.failed == {}


def test_a_step_that_is_retried_is_another_submission(account: Account, steps):
    assert steps(message(REQUEST), message(REQUEST, token="Zz3dE5gH7j")) == DONE
    assert len(account.call("list-jobs")[1]["jobs"]) == 2


@pytest.mark.usefixtures("one_role")
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"RoleArn": "arn:aws:iam::123456789012:role/another"}, "another"),
        ({"ResourceConfig": {"InstanceType": "ml.p4d.24xlarge", "InstanceCount": 9}}, "9"),
        ({"ResourceConfig": None}, "ResourceConfig"),
        ({"Tags": [{"Key": "priority", "Value": "soon"}]}, "priority"),
        ({"HyperParameters": {"epochs": {"slotq:argument": "v7"}}}, "'v7' has no value"),
        (
            {
                "HyperParameters": {"epochs": {"slotq:argument": "status", "kind": "integer"}},
            },
            "must be of type integer, not 'open'",
        ),
    ],
)
def test_a_refused_submission_fails_the_step_with_the_reason(
    account: Account, pipelines, steps, changes, reason
):
    sent = message({**REQUEST, **changes})
    sent["arguments"]["status"] = "open"
    assert steps(sent) == DONE
    assert reason in pipelines.failed[TOKEN]
    assert account.call("list-jobs")[1]["jobs"] == []


def test_a_long_reason_is_cut(pipelines, steps):
    request = {**REQUEST, "Tags": [{"Key": "priority", "Value": "x" * 250}] * 3}
    assert steps(message(request)) == DONE
    assert 100 < len(pipelines.failed[TOKEN]) <= 256


@pytest.mark.parametrize("arguments", [{}, {"request": 7}, {"request": "{"}, {"request": "[]"}, 7])
def test_arguments_without_a_request_fail_the_step(pipelines, steps, arguments):
    assert steps(message(arguments=arguments)) == DONE
    assert "'request'" in pipelines.failed[TOKEN]


@pytest.mark.parametrize(
    "body",
    [
        "not JSON",
        "[]",
        "[" * 100_000,
        message(REQUEST, token=None),
        message(REQUEST, token="a/b"),
        message(REQUEST, pipelineExecutionArn=None),
        message(REQUEST, pipelineExecutionArn="arn:aws:sagemaker:x:1:pipeline/../execution/y"),
    ],
    ids=lambda body: str(body)[:60],
)
def test_a_message_of_no_step_is_put_away_and_not_repeated(
    account: Account, pipelines, steps, output, body
):
    """The other messages of the batch are taken."""
    assert steps(body, message(REQUEST)) == DONE
    assert the_job(account)["state"] == "pending"
    (letter,) = account.letters.read
    assert letter["subject"] == "message-0"
    assert pipelines.failed == {}
    assert TOKEN not in json.dumps(letter) + output()


@pytest.mark.parametrize(
    "queue",
    [
        "arn:aws:sqs:us-east-1:123456789012:slotq-pipelines-other",
        "arn:aws:sqs:us-east-1:123456789012:slotq-pipelines-vision/../x",
        "arn:aws:sns:us-east-1:123456789012:slotq-pipelines-vision",
        "",
    ],
)
def test_a_queue_that_was_set_up_for_no_role_submits_nothing(account: Account, steps, queue):
    assert steps(message(REQUEST), queue=queue) == DONE
    assert account.call("list-jobs")[1]["jobs"] == []
    assert len(account.letters.read) == 1


@pytest.mark.parametrize(
    "role", ["", "arn:aws:iam::210987654321:role/Other", "arn:aws:iam::123456789012:user/eve", "*"]
)
def test_a_parameter_that_names_no_role_of_the_account_submits_nothing(
    account: Account, ssm, steps, role
):
    ssm.parameters = dict.fromkeys(ssm.parameters, role)
    assert steps(message(REQUEST)) == DONE
    assert account.call("list-jobs")[1]["jobs"] == []
    assert len(account.letters.read) == 1


def test_while_ssm_does_not_answer_the_message_comes_again(account: Account, ssm, steps):
    ssm.refuses = "ThrottlingException"
    assert steps(message(REQUEST)) == AGAIN
    assert account.letters.read == []


def test_the_role_of_a_queue_is_read_once(ssm, steps):
    assert steps(message(REQUEST), message(REQUEST)) == DONE
    assert ssm.reads == ["/slotq/slotq/pipelines/slotq-pipelines-vision"]


def test_while_the_caller_has_too_many_jobs_the_message_comes_again(
    account: Account, pipelines, steps
):
    limits = {**sample("set-limits"), "body": json.dumps({"waiting": 1})}
    assert account.call(limits)[0] == 200
    assert steps(message(REQUEST)) == DONE
    other = message(REQUEST, token="Zz3dE5gH7j")
    assert steps(other) == AGAIN
    assert pipelines.failed == {}
    assert steps(other, tries=MOST_TRIES) == DONE
    assert pipelines.failed["Zz3dE5gH7j"].startswith("SlotQ.Refused: ")


def test_a_failure_that_pipelines_does_not_take_comes_again(account: Account, steps, output):
    account.waits.refuses = "ThrottlingException"
    assert steps(message(arguments={})) == AGAIN
    assert TOKEN not in output()


def test_a_step_that_no_longer_waits_is_left_alone(account: Account, steps):
    account.waits.over.add(TOKEN)
    assert steps(message(arguments={})) == DONE


def test_a_stopped_execution_cancels_the_job(account: Account, pipelines, steps):
    steps(message(REQUEST))
    account.settle()
    name = the_job(account)["name"]
    assert account.state(name) == "running"
    assert steps(message(status="Stopping", arguments=None)) == DONE
    assert account.state(name) == "stopping"
    account.pass_time(HOUR)
    account.settle()
    account.send("tick")
    assert account.state(name) == "cancelled"
    assert pipelines.failed[TOKEN].startswith("SlotQ.Cancelled: ")


def test_a_stop_that_comes_before_its_submission_fails_the_step(account: Account, pipelines, steps):
    stop = {"token": TOKEN, "pipelineExecutionArn": EXECUTION, "Status": "Stopping"}
    assert steps(stop) == DONE
    assert "before its job was submitted" in pipelines.failed[TOKEN]


@pytest.mark.parametrize("status", ["Stopping", "Stopped", "Failed", "ResourceNotFound"])
def test_a_message_that_comes_again_after_a_stop_submits_nothing(
    account: Account, pipelines, executions, steps, status
):
    """The stop came while the queue took no job."""
    executions.status = status
    assert steps(message(REQUEST), tries=2) == DONE
    assert account.call("list-jobs")[1]["jobs"] == []
    assert "before its job was submitted" in pipelines.failed[TOKEN]


def test_a_message_that_comes_again_is_submitted_while_the_execution_goes_on(
    account: Account, executions, steps
):
    executions.status = "ThrottlingException"
    assert steps(message(REQUEST), tries=2) == AGAIN
    executions.status = "Executing"
    assert steps(message(REQUEST), tries=3) == DONE
    assert the_job(account)["state"] == "pending"


def test_a_job_that_shall_go_on_is_left_and_its_step_answered(account: Account, pipelines, steps):
    sent = message(REQUEST)
    sent["arguments"]["when_abandoned"] = "continue"
    steps(sent)
    account.settle()
    assert steps({**sent, "status": "Stopping"}) == DONE
    assert the_job(account)["state"] == "running"
    assert "goes on" in pipelines.failed[TOKEN]


def test_another_roles_queue_cannot_stop_the_job(account: Account, ssm, pipelines, steps):
    """With projects a role changes its own jobs alone; the message of another role is refused."""
    other = QUEUE_ARN.replace("vision", "other")
    ssm.parameters["/slotq/slotq/pipelines/slotq-pipelines-other"] = (
        "arn:aws:iam::123456789012:role/Other"
    )
    share()
    steps(message(REQUEST))
    assert steps(message(status="Stopping"), queue=other) == DONE
    states = {job["state"] for job in account.call("list-jobs")[1]["jobs"]}
    assert "cancelled" not in states


def test_a_step_waits_across_an_eviction_and_gets_the_model(account: Account, pipelines, steps):
    steps(message({**REQUEST, "Tags": [{"Key": "priority", "Value": "1"}]}))
    account.settle()
    name = the_job(account)["name"]
    both = {**REQUEST["ResourceConfig"], "InstanceCount": 2}
    urgent = [{"Key": "priority", "Value": "9"}]
    account.submit("urgent", ResourceConfig=both, Tags=urgent)
    account.settle()
    account.pass_time(HOUR // 60)
    account.settle()
    account.send("tick")
    assert (account.state(name), account.state("urgent")) == ("preempted", "running")
    assert (pipelines.succeeded, pipelines.failed) == ({}, {})
    account.completes("urgent")
    job = account.job(name)
    assert job["state"] == "running"
    account.completes(job["training_job"])
    account.send("tick")
    outputs = pipelines.succeeded[TOKEN]
    assert outputs["model"] == account.job(name)["attempts"][-1]["artifact"]
    assert outputs["model"].startswith("s3://")
    assert outputs["job"] == name


def test_a_failed_job_fails_the_step_with_its_reason(account: Account, pipelines, steps):
    steps(message(REQUEST))
    account.settle()
    name = the_job(account)["name"]
    account.plane.job(name).status = "Failed"
    event = sample("training-failed")
    event["detail"]["TrainingJobName"] = name
    event["detail"].pop("Tags", None)
    account.send(event)
    account.send("tick")
    assert pipelines.failed[TOKEN] == f"SlotQ.Failed: {account.job(name)['message']}"


def test_a_job_that_its_time_box_ends_fails_the_step(account: Account, pipelines, steps):
    steps(message({**REQUEST, "StoppingCondition": {"MaxRuntimeInSeconds": 600}}))
    account.settle()
    for seconds in (700, 200):  # SageMaker stops the job, and it ends two minutes later.
        account.pass_time(seconds * 1000)
        account.settle()
    account.send("tick")
    assert pipelines.failed[TOKEN].startswith("SlotQ.MaxRuntimeExceeded: ")


def test_the_function_takes_nothing_but_messages(account: Account, monkeypatch):
    monkeypatch.setenv("SLOTQ_SERVES", "pipelines")
    forget()
    for event in ("add-job", "list-jobs", "tick", "pass", "training-in-progress"):
        with pytest.raises(app.Failed, match="NotUnderstood"):
            account.send(event)
