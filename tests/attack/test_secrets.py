"""A request's hyperparameters, environment and tags never come out but to who asks for the request.

A marker stands in all three and goes every way that a request goes: taken, refused, run, evicted,
failed, rejected by SageMaker, misunderstood, and into crashes. Then all that was logged, counted,
announced, put among the dead letters, kept outside the REQUEST items and shown is searched for it.
"""

from __future__ import annotations

import copy
import json
import random
import string
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

import app
from slotq_core.privacy.redaction import MARK, without_secrets
from slotq_core.wire import submission as submission_reading
from slotq_core.wire.submission import read_submission
from tests.attack.sagemaker import QuotingClient, StrictClient
from tests.functional.account import Account, add_job, forget, sample

SECRET = "hunter2-correct-horse-battery"
SECRETS: dict[str, Any] = {
    "Environment": {"API_TOKEN": SECRET, "URL": f"https://user:{SECRET}@example.com"},
    "HyperParameters": {"password": f'"{SECRET}"', "epochs": "3"},
}
TAGS = [{"Key": "owner-password", "Value": SECRET}]


def submission(name: str = "job1", **changes: Any) -> dict[str, Any]:
    tags = [*changes.pop("Tags", []), *TAGS]
    return add_job(TrainingJobName=name, Tags=tags, **{**SECRETS, **changes})


def resources(instances: int) -> dict[str, Any]:
    asked: dict[str, Any] = json.loads(add_job()["body"])["ResourceConfig"]
    return {**asked, "InstanceCount": instances}


@pytest.fixture
def said(
    account: Account, output: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[], str]]:
    """All that anybody but the submitter learns of the queue, with debug logs on."""
    monkeypatch.setenv("SLOTQ_ANNOUNCE", "1")
    monkeypatch.setattr(app, "sagemaker_client", lambda: StrictClient(account.plane))
    forget()
    app.logger.setLevel("DEBUG")

    def everything() -> str:
        shown = [account.call(view) for view in ("list-jobs", "list-pools", "examine")]
        for job in shown[0][1].get("jobs", []):
            event = {**sample("get-job"), "path": f"/jobs/{job['name']}"}
            shown.append(account.call(event))
        kept = [item for item in account.items() if item["sk"]["S"] != "REQUEST"]
        heard = [account.announced.entries, account.letters.read, account.lambda_.calls]
        return output() + json.dumps(shown) + str(heard) + str(kept)

    yield everything
    app.logger.setLevel("INFO")


def kept_whole(account: Account, name: str = "job1") -> bool:
    """Whether the stored request still has the marker; otherwise there is nothing to find."""
    asked = {**sample("get-request"), "path": f"/jobs/{name}/request"}
    return SECRET in json.dumps(account.call(asked)[1])


def test_no_secret_leaks_while_a_job_runs_is_evicted_resumes_and_ends(account: Account, said):
    account.call(submission())
    account.settle()
    account.call(submission("urgent", Tags=[{"Key": "priority", "Value": "9"}]))
    account.call(submission("more-urgent", Tags=[{"Key": "priority", "Value": "9"}]))
    account.settle()
    account.send({**sample("amend-job"), "body": json.dumps({"tags": {"x": SECRET}})})
    changes = [
        {"name": "job1", "tags": {"y": SECRET}},
        {"name": "job1", "tags": {"priority": SECRET}},
    ]
    account.send({**sample("change-jobs"), "body": json.dumps({"changes": changes})})
    account.call("cancel-job")
    account.settle()
    account.send("tick")
    assert "urgent" in said()
    assert SECRET not in said()
    assert kept_whole(account)


REFUSED = {
    "no JSON": lambda body: body[:-1],
    "a key twice": lambda body: body.rstrip()[:-1] + f', "Environment": {{"a": "{SECRET}"}}}}',
    "a name that is none": lambda body: body.replace('"job1"', '"job 1"'),
    "a role that is none": lambda body: body.replace("arn:aws:iam", "arn:aws:none"),
    "too large": lambda body: body.replace(SECRET, SECRET * 50_000),
    "not kept even when compressed": lambda body: body.replace('"3"', json.dumps(noise())),
}


def noise() -> str:
    """Text that hardly compresses."""
    return "".join(random.Random(1).choices(string.ascii_letters + string.digits, k=800_000))


@pytest.mark.parametrize("change", REFUSED.values(), ids=REFUSED.keys())
def test_no_secret_leaks_from_a_refused_submission(account: Account, said, monkeypatch, change):
    monkeypatch.setenv("SLOTQ_EXECUTION_ROLES", json.loads(sample("add-job")["body"])["RoleArn"])
    event = submission()
    event["body"] = change(event["body"])
    assert SECRET in event["body"]
    assert account.call(event)[0] == 400
    assert SECRET not in said()


def test_no_secret_leaks_from_a_refusal_that_sagemaker_quotes(account: Account, said, monkeypatch):
    monkeypatch.setattr(app, "sagemaker_client", lambda: QuotingClient(account.plane))
    forget()
    account.call(submission())
    account.settle()
    assert account.state("job1") == "failed"
    assert "failed to satisfy constraint" in said()
    assert SECRET not in said()
    assert kept_whole(account)


@pytest.mark.parametrize(
    "field", [{"Environment": {"TOKEN": [SECRET]}}, {"HyperParameters": SECRET}], ids=str
)
def test_no_secret_leaks_from_a_refusal_that_botocore_quotes(
    account: Account, said, field, monkeypatch
):
    """A job of an earlier version; today's queue would refuse the request and quote nothing."""
    status, told = account.call(submission(**field))
    assert (status, SECRET in json.dumps(told)) == (400, False)

    def as_then(body):
        return read_submission(json.loads(body))

    monkeypatch.setattr(submission_reading, "parse_submission", as_then)
    account.call(submission(**field))
    account.settle()
    assert account.state("job1") == "failed"
    assert "Invalid type for parameter" in said()
    assert SECRET not in said()


@pytest.mark.parametrize(
    "reason",
    [
        f'AlgorithmError: ExitCode 1 Command "python3 train.py --password {SECRET}", exit code: 1',
        f"AlgorithmError: KeyError: '{SECRET}', exit code: 1",
        f"CapacityError: Unable to provision requested ML compute capacity for {SECRET}",
        f"InternalServerError: {SECRET}",
    ],
)
def test_no_secret_leaks_from_a_failure_reason(account: Account, said, reason: str):
    account.call(submission())
    account.settle()
    failed = sample("training-failed")
    failed["detail"]["FailureReason"] = reason
    account.send(failed)
    account.settle()
    assert reason.partition(":")[0] in said()
    assert SECRET not in said()


def test_no_secret_leaks_from_a_training_event_with_the_whole_request(account: Account, said):
    account.call(submission())
    account.settle()
    for name in ("training-in-progress", "poison-unknown-status", "poison-odd-field"):
        event = sample(name)
        event["detail"].update(copy.deepcopy(SECRETS))
        account.send(event)
    for odd in ("source", "detail-type"):
        account.send({**sample("training-completed"), odd: "odd", "detail": SECRETS})
    account.send({"id": "1", "detail": SECRET, "body": SECRET})
    assert len(account.letters.read) >= 4
    assert SECRET not in said()


def test_no_secret_leaks_from_a_start_that_sagemaker_does_not_answer(
    account: Account, said, monkeypatch
):
    """Nor from one that is denied, where SageMaker does not show whether it has taken effect."""
    account.plane.knobs.denied = "sagemaker:DescribeTrainingJob"
    client = StrictClient(account.plane)
    errors = iter([RuntimeError(SECRET), refusal(500), refusal(code="AccessDeniedException")])

    def create(**_: Any) -> Any:
        raise next(errors)

    monkeypatch.setattr(client, "create_training_job", create)
    monkeypatch.setattr(app, "sagemaker_client", lambda: client)
    forget()
    account.call(submission())
    for _ in range(3):
        account.send("tick")
        account.clock.set(account.clock.now() + 60_000)
    assert said().count("job1: CreateTrainingJob job1: ") == 2
    assert "a right is missing, AccessDeniedException" in said()
    assert SECRET not in said()
    assert kept_whole(account)


@pytest.mark.parametrize("operation", ["transact_write_items", "get_item", "query", "update_item"])
def test_no_secret_leaks_from_a_crash(account: Account, said, monkeypatch, operation: str):
    """Whatever the error's text, and whatever raises it."""
    account.call(submission("before", ResourceConfig=resources(2)))  # of another line
    there = account.client("dynamodb")
    errors = [ValueError(SECRET), RecursionError(SECRET), KeyError(SECRET), refusal()]
    for error in errors:

        def broken(_error: Exception = error, **_: Any) -> Any:
            raise _error

        with monkeypatch.context() as patch:
            patch.setattr(there, operation, broken, raising=False)
            # Not of the job whose request is looked at: its submitter may see that.
            answered(account, submission("during"))
            for event in ("tick", "training-completed", "get-request", "list-jobs"):
                answered(account, sample(event))
    assert '"failed"' in said()
    assert SECRET not in said()


def refusal(status: int = 400, code: str = "ValidationException") -> ClientError:
    error = {"Code": code, "Message": f"Item {{'x': '{SECRET}'}} is too large"}
    answer: Any = {"Error": error, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(answer, "TransactWriteItems")


def answered(account: Account, event: dict[str, Any]) -> None:
    """A 5xx answer, or what Lambda logs and retries: neither has the marker."""
    try:
        told = json.dumps(account.send(event))
    except app.Failed:
        told = traceback.format_exc()
    assert SECRET not in told


def test_no_secret_leaks_from_unreadable_items(account: Account, said):
    account.call(submission())
    account.settle()
    (item,) = [it for it in account.items() if it["sk"]["S"] == "REQUEST"]
    for wrong in ({"B": SECRET.encode()}, {"S": SECRET}, {"M": {"x": {"S": SECRET}}}):
        account.dynamodb.put_item(TableName="sagemaker-queue", Item={**item, "jobDetails": wrong})
        assert SECRET not in json.dumps(account.call("get-request"))
        failed = sample("training-failed")
        account.send(failed)
        account.send("tick")
    assert SECRET not in said()


def test_only_values_of_the_request_are_withheld():
    request = {
        "HyperParameters": {"optimizer": "adam", "sagemaker_region": '"eu-west-1"', "lr": "0.1"},
        "Environment": {"TOKEN": 'a"b\nc-d'},
        "Tags": [{"Key": "team", "Value": "vision"}, {"Key": "team-2", "Value": ""}],
    }
    shown = {
        "madam, in eu-west-1 the team saw adam": f"madam, in eu-west-1 the team saw {MARK}",
        "KeyError: 'a\"b\\nc-d'": f"KeyError: '{MARK}'",
        "lr of 0.1 for vision": f"lr of 0.1 for {MARK}",
        "Value 'x' at 'a' failed; Value 'y' at 'b' failed": f"Value '{MARK}' at 'a' failed; "
        f"Value '{MARK}' at 'b' failed",
        "The account-level service limit 'ml.p4d.24xlarge' is 2 Instances": "The account-level "
        "service limit 'ml.p4d.24xlarge' is 2 Instances",
    }
    assert {text: without_secrets(text, request) for text in shown} == shown
