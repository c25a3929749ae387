"""The table of the members of AWS's calls, against botocore's model and what the calls do."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
import botocore.session
import pytest
from botocore.exceptions import ClientError

import slotq
from slotq.aws_members import MEMBERS, Use, refused_by_emulator, refused_by_hooks
from slotq.local.training import request_check
from slotq.session.answers.other_calls import INSTEAD
from slotq.session.install import Installation, connect
from tests.unit.client.fake_aws import REQUEST
from tests.unit.client.fake_queue import ENDPOINT, FakeQueue, client_of, waiting
from tests.unit.client.test_listing import PLAN, Account, tell
from tests.unit.client.test_log_calls import NOW, two_attempts, written  # noqa: F401 - a fixture
from tests.unit.client.test_log_calls import logs as logs  # noqa: PLC0414 - a fixture


@pytest.fixture
def queue():
    return FakeQueue()


def members(operation: str) -> set[str]:
    service, name = operation.split(".")
    model = botocore.session.Session().get_service_model(service)
    return set(model.operation_model(name).input_shape.members)


@pytest.mark.parametrize("operation", MEMBERS)
def test_each_member_of_botocores_model_has_a_row(operation):
    """A botocore that adds a member: honour it, or say in `aws_members.py` why not."""
    assert MEMBERS[operation].keys() == members(operation)


@pytest.fixture
def hooked(http):
    """The operations that the hooks answer, but for those that they refuse whole."""
    client, training = connect(None, {"queue": client_of(http), "endpoint": ENDPOINT}, say=print)
    calls = Installation(boto3.Session(), client, training).calls.keys()
    return calls - {f"sagemaker.{name}" for name in INSTEAD}


def test_each_operation_that_is_answered_has_rows(hooked):
    emulated = {f"sagemaker.{name}" for name in request_check.OPERATIONS}
    assert hooked | emulated == MEMBERS.keys()


def test_whatever_is_not_honoured_has_a_reason():
    for operation, rows in MEMBERS.items():
        for name, row in rows.items():
            honoured = {row.hook, row.emulator} == {Use.HONOURED}
            assert bool(row.why) is not honoured, f"{operation} {name}"


@pytest.mark.parametrize(
    ("operation", "name", "refusal"),
    [
        (operation, name, refusal)
        for operation, rows in MEMBERS.items()
        for name, row in rows.items()
        for refusal, use in ((refused_by_hooks, row.hook), (refused_by_emulator, row.emulator))
        if use is Use.REFUSED
    ],
)
def test_a_refused_member_is_named_with_the_reason(operation, name, refusal):
    why = refusal(operation, {name: "given"})
    assert why == f"{name} is not supported here: {MEMBERS[operation][name].why}"
    assert refusal(operation, {name: None}) == refusal(operation, {}) == ""


def test_the_hooks_refuse_by_name(http, queue):
    queue.jobs["job1"] = waiting(1)
    queue.requests["job1"] = dict(REQUEST)
    aws = boto3.Session()
    slotq.install(aws, queue=client_of(http), endpoint=ENDPOINT)
    sagemaker = aws.client("sagemaker")
    arn = "arn:aws:sagemaker:eu-west-1:123456789012:training-job/job1"
    assert sagemaker.list_tags(ResourceArn=arn, MaxResults=50)["Tags"] == []
    with pytest.raises(ClientError, match="NextToken is not supported here"):
        sagemaker.list_tags(ResourceArn=arn, NextToken="more")


def test_the_plane_refuses_by_name(queue):
    account = Account(queue)
    for operation, given in (
        ("Search", {"Resource": "TrainingJob", "CrossAccountFilterOption": "CrossAccount"}),
        ("CreateTrainingJob", REQUEST | {"ServerlessJobConfig": {"JobType": "FineTuning"}}),
    ):
        with pytest.raises(request_check.PlaneError, match="is not supported here"):
            account.plane.handle(operation, given)


# Each honoured member of the calls that read makes a difference: two calls, two answers.

LISTING: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "NextToken": ({"MaxResults": 3}, {"MaxResults": 3, "NextToken": "of the first"}),
    "MaxResults": ({"MaxResults": 3}, {"MaxResults": 4}),
    "CreationTimeAfter": ({}, {"CreationTimeAfter": 1_790_000_100}),
    "CreationTimeBefore": ({}, {"CreationTimeBefore": 1_790_000_100}),
    "LastModifiedTimeAfter": ({}, {"LastModifiedTimeAfter": 1_790_000_100}),
    "LastModifiedTimeBefore": ({}, {"LastModifiedTimeBefore": 1_790_000_100}),
    "NameContains": ({}, {"NameContains": "waits"}),
    "StatusEquals": ({}, {"StatusEquals": "Stopped"}),
    "SortBy": ({"SortBy": "CreationTime"}, {"SortBy": "Name"}),
    "SortOrder": ({"SortOrder": "Ascending"}, {"SortOrder": "Descending"}),
    "WarmPoolStatusEquals": ({}, {"WarmPoolStatusEquals": "InUse"}),
    "TrainingPlanArnEquals": ({}, {"TrainingPlanArnEquals": PLAN}),
}


@pytest.fixture
def account(queue):
    account = Account(queue)
    tell(account)
    for name, own in (
        ("kept", {"KeepAlivePeriodInSeconds": 60}),
        ("plan", {"TrainingPlanArn": PLAN}),
    ):
        account.trains(name, ResourceConfig=REQUEST["ResourceConfig"] | own)
    return account


def honoured(operation: str, side: str) -> set[str]:
    return {name for name, row in MEMBERS[operation].items() if getattr(row, side) is Use.HONOURED}


def names(answer: dict[str, Any]) -> list[str]:
    return [row["TrainingJobName"] for row in answer["TrainingJobSummaries"]]


@pytest.mark.parametrize("side", ["hook", "emulator"])
@pytest.mark.parametrize("member", LISTING)
def test_each_member_of_listing_makes_a_difference(http, account, member, side):
    if side == "hook":
        aws = boto3.Session()
        slotq.install(aws, queue=client_of(http), endpoint=ENDPOINT)
        client = aws.client("sagemaker")
        client.meta.events.register_last("before-call.sagemaker", account.answer)
        call = client.list_training_jobs
    else:
        call = lambda **asked: account.plane.handle("ListTrainingJobs", asked)  # noqa: E731
    first, second = LISTING[member]
    answer = call(**first)
    if "NextToken" in second:
        second = second | {"NextToken": answer["NextToken"]}
    assert names(call(**second)) != names(answer)


def test_the_probes_of_listing_are_complete():
    assert LISTING.keys() == honoured("sagemaker.ListTrainingJobs", "hook")
    assert LISTING.keys() == honoured("sagemaker.ListTrainingJobs", "emulator")


GROUP = "/aws/sagemaker/TrainingJobs"
OF_JOB = {"logGroupName": GROUP, "logStreamName": "job1/algo-1-slotq", "startFromHead": True}
BY_IDENTIFIER = {key: value for key, value in OF_JOB.items() if key != "logGroupName"}
READING: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "logGroupName": (OF_JOB, OF_JOB | {"logGroupName": "another"}),
    "logGroupIdentifier": (
        BY_IDENTIFIER | {"logGroupIdentifier": GROUP},
        BY_IDENTIFIER | {"logGroupIdentifier": "another"},
    ),
    "logStreamName": (OF_JOB, OF_JOB | {"logStreamName": "job1/algo-2-slotq"}),
    "startTime": (OF_JOB, OF_JOB | {"startTime": NOW + 2}),
    "endTime": (OF_JOB, OF_JOB | {"endTime": NOW + 1}),
    "nextToken": (OF_JOB, OF_JOB | {"nextToken": "of the first"}),
    "limit": (OF_JOB, OF_JOB | {"limit": 1}),
    "startFromHead": (OF_JOB, OF_JOB | {"startFromHead": False}),
}
BY_PREFIX = {"logGroupName": GROUP, "logStreamNamePrefix": "job1/"}
STREAMS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "logGroupName": (BY_PREFIX, BY_PREFIX | {"logGroupName": "another"}),
    "logGroupIdentifier": (
        {"logGroupIdentifier": GROUP, "logStreamNamePrefix": "job1/"},
        {"logGroupIdentifier": "another", "logStreamNamePrefix": "job1/"},
    ),
    "logStreamNamePrefix": (BY_PREFIX, BY_PREFIX | {"logStreamNamePrefix": "job1/algo-2"}),
    "orderBy": (BY_PREFIX, BY_PREFIX | {"orderBy": "LastEventTime"}),
    "descending": (BY_PREFIX, BY_PREFIX | {"descending": True}),
    "nextToken": (BY_PREFIX | {"limit": 1}, BY_PREFIX | {"limit": 1, "nextToken": "of the first"}),
    "limit": (BY_PREFIX, BY_PREFIX | {"limit": 1}),
}
FILTERED = {"logGroupName": GROUP, "logStreamNames": ["job1/algo-1-slotq"]}
FILTERING: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "logGroupName": (FILTERED, FILTERED | {"logGroupName": "another"}),
    "logStreamNames": (FILTERED, FILTERED | {"logStreamNames": ["job1/algo-2-slotq"]}),
    "logStreamNamePrefix": (BY_PREFIX, BY_PREFIX | {"logStreamNamePrefix": "job1/algo-2"}),
    "startTime": (FILTERED, FILTERED | {"startTime": NOW + 2}),
    "endTime": (FILTERED, FILTERED | {"endTime": NOW + 1}),
    "filterPattern": (FILTERED, FILTERED | {"filterPattern": '"step 4"'}),
    "nextToken": (FILTERED | {"limit": 1}, FILTERED | {"limit": 1, "nextToken": "of the first"}),
    "limit": (FILTERED, FILTERED | {"limit": 1}),
}
LOG_CALLS = {
    "describe_log_streams": ("logs.DescribeLogStreams", STREAMS),
    "get_log_events": ("logs.GetLogEvents", READING),
    "filter_log_events": ("logs.FilterLogEvents", FILTERING),
}


@pytest.mark.parametrize(
    ("call", "member"),
    [(call, member) for call, (_, probes) in LOG_CALLS.items() for member in probes],
)
def test_each_member_of_log_calls_makes_a_difference(logs, queue, two_attempts, call, member):  # noqa: F811
    written("job1", "of the second host", host=2)
    job = queue.jobs["job1"]
    queue.jobs["job1"] = job.model_copy(update={"demand": {"slots": 2}})
    first, second = LOG_CALLS[call][1][member]
    answer = getattr(logs, call)(**first)
    if "nextToken" in second:
        second = second | {"nextToken": answer.get("nextToken") or answer["nextForwardToken"]}
    kept = "logStreams" if call == "describe_log_streams" else "events"
    assert answer[kept]
    assert said_by(getattr(logs, call), kept, second) != answer[kept]


def said_by(call, kept, asked):
    """What a call answers: the code of its error, if there is one."""
    try:
        return call(**asked)[kept]
    except ClientError as error:
        return error.response["Error"]["Code"]


PASSED = {
    "logs.FilterLogEvents": {"logGroupIdentifier", "startFromHead", "interleaved", "unmask"},
    "logs.GetLogEvents": {"unmask"},
}
"""Members that go on to CloudWatch as they are, and that moto does not know."""


@pytest.mark.parametrize("call", LOG_CALLS)
def test_the_probes_of_log_calls_are_complete(call):
    operation, probes = LOG_CALLS[call]
    assert probes.keys() | PASSED.get(operation, set()) == honoured(operation, "hook")


def test_what_filtering_does_not_need_to_know_goes_on_to_cloudwatch(logs, two_attempts):  # noqa: F811
    seen = []

    def answer(params, **_):
        seen.append(
            params["body"].decode() if isinstance(params["body"], bytes) else params["body"]
        )
        return SimpleNamespace(status_code=200, headers={}), {"events": []}

    logs.meta.events.register_last("before-call.logs.FilterLogEvents", answer)
    given = {"startFromHead": False, "interleaved": True, "unmask": True}
    logs.filter_log_events(logGroupIdentifier=GROUP, logStreamNames=["job1/algo-1-slotq"], **given)
    for name in (*given, "logGroupIdentifier"):
        assert f'"{name}"' in seen[0]


def test_the_page_shows_the_calls_and_the_members_that_are_not_honoured(hooked):
    text = (Path(__file__).parents[3] / "docs" / "client.md").read_text()
    for operation in hooked:
        rows = MEMBERS[operation]
        assert re.search(rf"\b{operation.split('.')[1]}\b", text), operation
        for name, row in rows.items():
            if row.hook is not Use.HONOURED:
                assert f"`{name}`" in text, name
