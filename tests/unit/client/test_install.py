"""`slotq.install` under real boto3, with a fake queue and moto's AWS."""

from __future__ import annotations

import json
import logging
import time
from functools import cache
from types import SimpleNamespace

import boto3
import pytest
from botocore.exceptions import ClientError, ParamValidationError
from moto import mock_aws

import slotq
from slotq.errors import CannotReach, NotConfigured
from slotq_core.names import LOG_GROUP
from tests.unit.client.fake_aws import REQUEST
from tests.unit.client.fake_queue import (
    FakeQueue,
    attempt,
    client_of,
    ended,
    job_view,
    no_connection,
    running,
    waiting,
)

EVICTED = attempt(1, outcome="evicted", stop_cause="evicted", stopped_for="job4")
SECOND = "waiting, place 2 in the line (1 ahead, since 2026-11-20 10:30 UTC): the pool is full"
NEXT = "waiting, place 1 in the line (0 ahead, since 2026-11-20 10:30 UTC): the pool is full"
AGAIN = "job1-qstamp-2-abcdef"


@cache
def boto_session():
    """One session for all tests of this file, because reading AWS's service models takes long."""
    return boto3.Session()


@pytest.fixture(autouse=True)
def aws():
    with mock_aws():
        yield


@pytest.fixture
def queue():
    return FakeQueue()


@pytest.fixture
def sagemaker(http):
    slotq.install(
        boto_session(), queue=client_of(http), endpoint="https://queue.test/prod", priority=3
    )
    return boto_session().client("sagemaker")


def train(name):
    """A training job in moto, completed from the start, that the queue does not know."""
    boto3.Session().client("sagemaker").create_training_job(**REQUEST | {"TrainingJobName": name})


def statuses(answer):
    return answer["TrainingJobStatus"], answer.get("SecondaryStatus")


def test_a_request_becomes_a_job(sagemaker, queue):
    answer = sagemaker.create_training_job(**REQUEST)
    assert answer["TrainingJobArn"] == "arn:aws:sagemaker:eu-west-1:123456789012:training-job/job1"
    assert answer["ResponseMetadata"]["HTTPStatusCode"] == 200
    assert queue.requests["job1"] == REQUEST | {"Tags": [{"Key": "priority", "Value": "3"}]}
    shown = sagemaker.describe_training_job(TrainingJobName="job1")
    assert statuses(shown) == ("InProgress", "Pending")
    assert shown["TrainingJobArn"] == answer["TrainingJobArn"]


def test_jobs_created_within_after_come_after_others(http, queue):
    aws = boto3.Session()
    ours = slotq.install(aws, queue=client_of(http), endpoint="https://queue.test/prod")
    with ours.after("prepare"):
        aws.client("sagemaker").create_training_job(**REQUEST)
    aws.client("sagemaker").create_training_job(**REQUEST | {"TrainingJobName": "job2"})
    assert {"Key": "slotq:after", "Value": "prepare"} in queue.requests["job1"]["Tags"]
    assert "Tags" not in queue.requests["job2"]


def test_a_request_that_botocore_refuses_is_not_submitted(sagemaker, queue):
    with pytest.raises(ParamValidationError):
        sagemaker.create_training_job(**REQUEST | {"RoleArn": 7})
    assert not queue.requests


def test_a_serverless_job_goes_to_sagemaker(sagemaker, queue):
    given = {key: value for key, value in REQUEST.items() if key != "ResourceConfig"}
    config = {"JobType": "FineTuning", "BaseModelArn": "arn:aws:sagemaker:eu-west-1:aws:hub/x"}
    sagemaker.create_training_job(**given, ServerlessJobConfig=config)
    assert not queue.requests
    assert [row["TrainingJobName"] for row in rows(sagemaker)] == ["job1"]


def test_a_taken_name_is_resource_in_use_and_other_refusals_are_validation_errors(sagemaker):
    sagemaker.create_training_job(**REQUEST)
    with pytest.raises(sagemaker.exceptions.ResourceInUse, match="taken"):
        sagemaker.create_training_job(
            **REQUEST | {"RoleArn": "arn:aws:iam::123456789012:role/other"}
        )
    tags = [{"Key": "priority", "Value": "1.5"}]
    with pytest.raises(ClientError, match="integer") as raised:
        sagemaker.create_training_job(**REQUEST | {"TrainingJobName": "job2", "Tags": tags})
    assert raised.value.response["Error"]["Code"] == "ValidationException"


def test_an_unreachable_queue_is_an_error_and_nothing_goes_to_sagemaker(sagemaker, http):
    http.troubles = [no_connection()] * 9
    with pytest.raises(CannotReach):
        sagemaker.create_training_job(**REQUEST)
    assert boto3.Session().client("sagemaker").list_training_jobs()["TrainingJobSummaries"] == []


def test_a_briefly_unavailable_queue_is_retried(queue, http, monkeypatch):
    slept = []
    monkeypatch.setattr("slotq.session.training_calls.time.sleep", slept.append)
    aws = boto3.Session()
    slotq.install(aws, queue=client_of(http), endpoint="https://queue.test/prod")
    client = aws.client("sagemaker")
    client.create_training_job(**REQUEST)
    http.troubles = [no_connection()] * 7
    assert statuses(client.describe_training_job(TrainingJobName="job1"))[0] == "InProgress"
    http.troubles = [no_connection()] * 7
    with pytest.raises(CannotReach):
        client.describe_training_job(TrainingJobName="a-name-of-somebody-else")


def test_logs_are_read_through_a_short_outage(queue, http, monkeypatch):
    monkeypatch.setattr("slotq.session.training_calls.time.sleep", lambda _: None)
    aws = boto3.Session()
    slotq.install(aws, queue=client_of(http), endpoint="https://queue.test/prod")
    aws.client("sagemaker").create_training_job(**REQUEST)
    logs = aws.client("logs")
    http.troubles = [no_connection()] * 7
    asked = {"logGroupName": LOG_GROUP, "logStreamNamePrefix": "job1/"}
    assert logs.describe_log_streams(**asked)["logStreams"]
    http.troubles = [no_connection()] * 7
    assert logs.get_log_events(logGroupName=LOG_GROUP, logStreamName="job1/algo-1-slotq")["events"]


def test_a_second_install_replaces_the_settings(sagemaker, http, queue):
    slotq.install(
        boto_session(), queue=client_of(http), endpoint="https://queue.test/prod", priority=9
    )
    boto_session().client("sagemaker").create_training_job(**REQUEST)
    assert queue.requests["job1"]["Tags"] == [{"Key": "priority", "Value": "9"}]


def test_a_project_is_given_or_configured(http, queue, monkeypatch):
    monkeypatch.setenv("SLOTQ_PROJECT", "vision")
    bare = client_of(http)  # Its settings are its own.
    for name, client in (
        ("configured", slotq.install(boto_session(), queue=bare)),
        ("given", slotq.install(boto_session(), queue=bare, project="speech")),
        ("own", slotq.install(boto_session(), queue=bare.with_settings(project="audio"))),
    ):
        client.submit(REQUEST | {"TrainingJobName": name})
    tags = {name: request["Tags"][0]["Value"] for name, request in queue.requests.items()}
    assert tags == {"configured": "vision", "given": "speech", "own": "audio"}


def test_the_settings_count_for_the_clients_submit_too(http, queue):
    given = client_of(http)
    own = slotq.install(boto_session(), queue=given, priority=4, pools=["p5", "p4"])
    own.submit(REQUEST)
    assert queue.requests["job1"]["Tags"] == [
        {"Key": "priority", "Value": "4"},
        {"Key": "slotq:pools", "Value": "p5,p4"},
    ]
    given.submit(REQUEST | {"TrainingJobName": "job2"})
    assert "Tags" not in queue.requests["job2"]


def test_a_submission_is_logged_when_no_notices_are_wanted(sagemaker, caplog, capsys):
    caplog.set_level(logging.INFO, logger="slotq")
    sagemaker.create_training_job(**REQUEST)
    assert [(record.name, record.message) for record in caplog.records] == [
        ("slotq", "job1: in the queue with priority 3")
    ]
    assert capsys.readouterr().out == ""


def test_install_without_an_endpoint_fails_at_once():
    with pytest.raises(NotConfigured, match="SLOTQ_ENDPOINT"):
        slotq.install(boto3.Session())


def test_calls_about_unknown_names_go_to_sagemaker(sagemaker):
    train("other")
    shown = sagemaker.describe_training_job(TrainingJobName="other")
    assert shown["TrainingJobStatus"] == "Completed"
    assert sagemaker.list_tags(ResourceArn=shown["TrainingJobArn"])["Tags"] == []
    assert [row["TrainingJobName"] for row in rows(sagemaker)] == ["other"]


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        (ended(number=2), ("Completed", "Completed")),
        (ended("failed", 2, message="no luck"), ("Failed", "Failed")),
        (ended("cancelled", 2), ("Stopped", "Stopped")),
        (running(2), ("InProgress", "Uploading")),
        (running(2, state="stopping", attempts=[attempt(2, stop_cause="evicted")]),
         ("InProgress", "Interrupted")),
        (running(2, state="stopping", attempts=[attempt(2, stop_cause="cancelled")]),
         ("Stopping", "Stopping")),
        (running(2, state="stopping", attempts=[attempt(2, stop_cause="goal_reached")]),
         ("Stopping", "Stopping")),
    ],
)  # fmt: skip
def test_a_job_has_ended_only_when_the_queue_says_so(sagemaker, queue, job, expected):
    """Its training job has ended in each case, because moto's are completed from the start."""
    train(AGAIN)
    queue.jobs["job1"] = job
    shown = sagemaker.describe_training_job(TrainingJobName="job1")
    assert statuses(shown) == expected
    assert shown["TrainingJobName"] == "job1"
    assert shown["TrainingJobArn"].endswith(AGAIN)
    assert shown.get("FailureReason") == (job.message or None)


def test_stop_cancels_and_is_too_late_after_the_end(sagemaker, queue):
    sagemaker.create_training_job(**REQUEST)
    sagemaker.stop_training_job(TrainingJobName="job1")
    assert queue.jobs["job1"].state == "cancelled"
    queue.jobs["job1"] = job_view(state="completed")
    with pytest.raises(ClientError, match="ended"):
        sagemaker.stop_training_job(TrainingJobName="job1")


@pytest.fixture
def deleted(sagemaker):
    """Records the training jobs that SageMaker is asked to delete, which moto cannot. It has none
    for `job1`."""
    names = []

    def answer(model, params, **_):
        name = json.loads(params["body"])["TrainingJobName"]
        names.append(name)
        if name == "job1":
            error = {"Code": "ResourceNotFound", "Message": "Requested resource not found."}
            return SimpleNamespace(status_code=400), {"Error": error, "ResponseMetadata": {}}
        return SimpleNamespace(status_code=200), {"ResponseMetadata": {}}

    event = "before-call.sagemaker.DeleteTrainingJob"
    boto_session().events.register(event, answer)
    yield names
    boto_session().events.unregister(event, answer)


def test_an_ended_job_is_deleted_with_all_its_training_jobs(sagemaker, queue, deleted):
    queue.jobs["job1"] = ended(number=2)
    sagemaker.delete_training_job(TrainingJobName="job1")
    assert deleted == ["job1", AGAIN]
    with pytest.raises(ClientError) as raised:
        sagemaker.describe_training_job(TrainingJobName="job1")
    assert raised.value.response["Error"]["Code"] in {"ValidationException", "ResourceNotFound"}


def test_a_deleted_job_that_never_ran_is_unknown(sagemaker, deleted):
    sagemaker.create_training_job(**REQUEST)
    sagemaker.stop_training_job(TrainingJobName="job1")
    assert statuses(sagemaker.describe_training_job(TrainingJobName="job1"))[0] == "Stopped"
    sagemaker.delete_training_job(TrainingJobName="job1")
    assert deleted == []
    with pytest.raises(ClientError):
        sagemaker.describe_training_job(TrainingJobName="job1")


@pytest.mark.parametrize("job", [waiting(1), waiting(1, state="preempted"), running()])
def test_deleting_a_job_before_its_end_is_refused(sagemaker, queue, deleted, job):
    queue.jobs["job1"] = job
    with pytest.raises(sagemaker.exceptions.ResourceInUse, match="stop it first"):
        sagemaker.delete_training_job(TrainingJobName="job1")
    assert deleted == []


def test_tags_of_a_waiting_job_are_listed(sagemaker, queue):
    arn = sagemaker.create_training_job(**REQUEST)["TrainingJobArn"]
    sagemaker.add_tags(ResourceArn=arn, Tags=[{"Key": "priority", "Value": "8"}])
    assert queue.jobs["job1"].priority == 8
    assert sagemaker.list_tags(ResourceArn=arn)["Tags"] == [{"Key": "priority", "Value": "8"}]


def rows(client, **filters):
    pages = client.get_paginator("list_training_jobs").paginate(**filters)
    return [row for page in pages for row in page["TrainingJobSummaries"]]


def test_waiting_jobs_are_listed_by_their_entry_and_once(sagemaker, queue):
    train("job1")
    train("done")
    queue.jobs = {
        "new": waiting(2, name="new", entry_time="2026-11-20T10:31:00.000Z"),
        "old": waiting(1, name="old"),
        "job1": waiting(3, state="preempted", attempts_begun=1),
    }
    found = rows(sagemaker, PaginationConfig={"PageSize": 1})
    assert [row["TrainingJobName"] for row in found[:2]] == ["old", "new"]
    assert sorted(row["TrainingJobName"] for row in found[2:]) == ["done", "job1"]
    shown = {row["TrainingJobName"]: statuses(row) for row in found}
    assert shown["old"] == shown["job1"] == ("InProgress", "Pending")
    assert shown["done"][0] == "Completed"


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"NameContains": "EW"}, ["new"]),
        ({"StatusEquals": "InProgress"}, ["old", "new", "job1"]),
        ({"StatusEquals": "Completed"}, ["done"]),
        ({"CreationTimeAfter": "2026-11-20T10:30:30Z", "NameContains": "new"}, ["new"]),
        ({"SortBy": "Name", "SortOrder": "Descending", "MaxResults": 5}, ["old", "new"]),
    ],
)
def test_list_filters_apply_to_waiting_jobs(sagemaker, queue, filters, expected):
    train("job1")
    train("done")
    queue.jobs = {
        "new": waiting(2, name="new", entry_time="2026-11-20T10:31:00.000Z"),
        "old": waiting(1, name="old"),
        "job1": waiting(
            3, state="preempted", attempts_begun=1, entry_time="2026-11-20T10:32:00.000Z"
        ),
    }
    found = [row["TrainingJobName"] for row in rows(sagemaker, **filters)]
    assert [name for name in found if name in expected] == expected
    if "StatusEquals" in filters:
        assert found == expected


def written(training_job, *lines):
    logs = boto3.Session().client("logs")
    stream = {"logGroupName": LOG_GROUP, "logStreamName": f"{training_job}/algo-1-1700000000"}
    if not logs.describe_log_groups()["logGroups"]:
        logs.create_log_group(logGroupName=LOG_GROUP)
    if not logs.describe_log_streams(
        logGroupName=LOG_GROUP, logStreamNamePrefix=stream["logStreamName"]
    )["logStreams"]:
        logs.create_log_stream(**stream)
    now = 1000 * int(time.time())
    events = [{"timestamp": now + n, "message": line} for n, line in enumerate(lines)]
    logs.put_log_events(**stream, logEvents=events)


class Reader:
    """Reads as an SDK does: the stream once, then from its last token until nothing is new."""

    def __init__(self, host=1):
        self.logs, self.token = boto_session().client("logs"), {}
        self.stream = f"job1/algo-{host}-slotq"

    def new(self):
        lines = []
        while True:
            page = self.logs.get_log_events(
                logGroupName=LOG_GROUP, logStreamName=self.stream, startFromHead=True, **self.token
            )
            before, self.token = self.token, {"nextToken": page["nextForwardToken"]}
            lines += [event["message"] for event in page["events"]]
            if not page["events"] and before == self.token:
                return lines


def test_one_log_stream_follows_all_attempts(sagemaker, queue):
    queue.jobs["job1"] = waiting(2)
    streams = boto_session().client("logs").describe_log_streams(
        logGroupName=LOG_GROUP, logStreamNamePrefix="job1/"
    )["logStreams"]  # fmt: skip
    assert [stream["logStreamName"] for stream in streams] == ["job1/algo-1-slotq"]
    reader = Reader()
    assert reader.new() == [f"slotq: job1: {SECOND}"]
    assert reader.new() == []
    queue.jobs["job1"] = running()
    written("job1", "step 1")
    assert reader.new() == ["step 1", "slotq: job1: running in pool p5 (attempt 1: job1)"]
    written("job1", "step 2")
    queue.jobs["job1"] = waiting(1, state="preempted", evictions=1, attempts=[EVICTED])
    assert reader.new() == [
        "step 2",
        f"slotq: job1: was evicted for job4; now {NEXT}",
    ]
    written(AGAIN, "step 3")
    queue.jobs["job1"] = running(2, evictions=1, attempts=[EVICTED, attempt(2)])
    assert reader.new() == ["step 3", f"slotq: job1: running in pool p5 (attempt 2: {AGAIN})"]
    queue.jobs["job1"] = ended(number=2, evictions=1, attempts=[EVICTED, attempt(2)])
    assert reader.new() == ["slotq: job1: completed after 2 attempts, evicted 1 time"]
    assert reader.new() == []


def test_a_log_read_after_the_end_separates_the_attempts(sagemaker, queue):
    written("job1", "step 1", "step 2")
    written(AGAIN, "step 3")
    queue.jobs["job1"] = ended(number=2, evictions=1, attempts=[EVICTED, attempt(2)])
    assert Reader().new() == [
        "step 1",
        "step 2",
        "slotq: job1: attempt 1 was evicted for job4",
        "step 3",
        "slotq: job1: completed after 2 attempts, evicted 1 time",
    ]


def test_only_the_first_hosts_stream_has_notices(sagemaker, queue):
    queue.jobs["job1"] = waiting(2, demand={"slots": 2})
    streams = boto_session().client("logs").describe_log_streams(
        logGroupName=LOG_GROUP, logStreamNamePrefix="job1/"
    )["logStreams"]  # fmt: skip
    assert len(streams) == 2
    assert Reader(host=2).new() == []


def test_logs_of_other_groups_and_jobs_come_from_cloudwatch(sagemaker, queue):
    written("other", "hello")
    logs = boto_session().client("logs")
    (stream,) = logs.describe_log_streams(
        logGroupName=LOG_GROUP, logStreamNamePrefix="other/"
    )["logStreams"]  # fmt: skip
    assert stream["logStreamName"] == "other/algo-1-1700000000"
    page = logs.get_log_events(logGroupName=LOG_GROUP, logStreamName=stream["logStreamName"])
    assert [event["message"] for event in page["events"]] == ["hello"]


def test_an_unknown_token_is_refused(sagemaker, queue):
    queue.jobs["job1"] = waiting(2)
    with pytest.raises(ClientError, match="nextToken is invalid"):
        boto_session().client("logs").get_log_events(
            logGroupName=LOG_GROUP, logStreamName="job1/algo-1-slotq", nextToken="f/123"
        )


@pytest.fixture
def updated(sagemaker):
    """Records the training jobs that SageMaker is asked to update, which moto cannot."""
    names = []

    def answer(params, **_):
        names.append(json.loads(params["body"])["TrainingJobName"])
        return SimpleNamespace(status_code=200, headers={}), {"TrainingJobArn": "arn:aws:sagemaker"}

    sagemaker.meta.events.register_last("before-call.sagemaker.UpdateTrainingJob", answer)
    return names


def test_an_update_is_for_the_training_job_of_the_latest_attempt(sagemaker, queue, updated):
    config = {"KeepAlivePeriodInSeconds": 0}
    queue.jobs["job1"] = ended(number=2)
    for name in ("job1", "other"):
        sagemaker.update_training_job(TrainingJobName=name, ResourceConfig=config)
    assert updated == [AGAIN, "other"]
    queue.jobs["job1"] = waiting(1)
    with pytest.raises(ClientError, match="no training job to update"):
        sagemaker.update_training_job(TrainingJobName="job1", ResourceConfig=config)
    assert updated == [AGAIN, "other"]


def test_a_search_says_once_what_it_does_not_find(http):
    said, aws = [], boto3.Session()
    slotq.install(aws, queue=client_of(http), endpoint="https://queue.test/prod", say=said.append)
    client = aws.client("sagemaker")
    client.search(Resource="Pipeline")
    assert said == []
    for _ in range(2):
        client.search(Resource="TrainingJob")
    assert len(said) == 1
    assert "does not find jobs that wait in the queue" in said[0]
