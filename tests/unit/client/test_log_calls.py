"""CloudWatch's log calls for jobs of the queue, as SDKs and orchestrators make them."""

from __future__ import annotations

import time
from functools import cache

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

import slotq
from slotq_core.names import LOG_GROUP
from slotq_core.timestamps import iso
from tests.log_readers import ReaderByTime
from tests.unit.client.fake_queue import ENDPOINT, FakeQueue, attempt, client_of, ended, running

NOW = 1000 * int(time.time())
AGAIN = "job1-qstamp-2-abcdef"
EVICTED = attempt(
    1, admitted_at=iso(NOW - 1), outcome="evicted", stop_cause="evicted", stopped_for="job4"
)
SECOND = attempt(2, admitted_at=iso(NOW + 1000))
NOTICE = "slotq: job1: attempt 1 was evicted for job4"
STREAM = {"logGroupName": LOG_GROUP, "logStreamName": "job1/algo-1-slotq"}


@cache
def boto_session():
    """One session for all tests of this file, because reading AWS's service models takes long."""
    return boto3.Session()


@pytest.fixture
def queue():
    return FakeQueue()


@pytest.fixture
def logs(http):
    with mock_aws():
        boto3.Session().client("logs").create_log_group(logGroupName=LOG_GROUP)
        slotq.install(boto_session(), queue=client_of(http), endpoint=ENDPOINT)
        yield boto_session().client("logs")


def written(training_job, *lines, at=NOW, host=1):
    """Lines of a training job, one each millisecond."""
    client = boto3.Session().client("logs")
    stream = {"logGroupName": LOG_GROUP, "logStreamName": f"{training_job}/algo-{host}-1700000000"}
    if not client.describe_log_streams(
        logGroupName=LOG_GROUP, logStreamNamePrefix=stream["logStreamName"]
    )["logStreams"]:
        client.create_log_stream(**stream)
    events = [{"timestamp": at + n, "message": line} for n, line in enumerate(lines)]
    client.put_log_events(**stream, logEvents=events)


def messages(page):
    return [event["message"] for event in page["events"]]


@pytest.fixture
def two_attempts(queue):
    """The log of a job that was evicted once and has completed."""
    written("job1", "step 1", "step 2", "step 3")
    written(AGAIN, "step 4", "step 5", at=NOW + 2000)
    queue.jobs["job1"] = ended(number=2, evictions=1, attempts=[EVICTED, SECOND])
    return ["step 1", "step 2", "step 3", NOTICE, "step 4", "step 5"]


@pytest.mark.parametrize("empties", [1, 3])
def test_a_reader_by_time_gets_each_line_once(logs, queue, empties):
    reader = ReaderByTime(logs, "job1", empties=empties)
    queue.jobs["job1"] = running(attempts=[attempt(1)], place=None)
    assert reader.look() == []
    for n in range(30):
        written("job1", f"step {n}", at=NOW + n // 3)
        if n % 7 == 6:
            assert reader.look() == [f"step {m}" for m in range(n - 6, n + 1)]
            assert reader.look() == []
    assert reader.look() == ["step 28", "step 29"]
    queue.jobs["job1"] = running(2, evictions=1, attempts=[EVICTED, SECOND])
    assert reader.look() == [NOTICE]
    written(AGAIN, "step 30", at=NOW + 2000)
    assert reader.look() == ["step 30"]
    queue.jobs["job1"] = ended(number=2, evictions=1, attempts=[EVICTED, SECOND])
    assert reader.look() == []
    late = ReaderByTime(logs, "job1", empties=empties).look()
    assert late == [*(f"step {n}" for n in range(30)), NOTICE, "step 30"]


@pytest.mark.parametrize("limit", [1, 2, 3, 10_000])
def test_pages_have_at_most_the_limit_and_hold_all_lines(logs, two_attempts, limit):
    lines, token = [], {}
    while True:
        page = logs.get_log_events(**STREAM, startFromHead=True, limit=limit, **token)
        assert len(page["events"]) <= limit
        lines += messages(page)
        if token == {"nextToken": page["nextForwardToken"]}:
            break
        token = {"nextToken": page["nextForwardToken"]}
    assert lines == [*two_attempts, "slotq: job1: completed after 2 attempts, evicted 1 time"]


@pytest.mark.parametrize("limit", [1, 2, 3, 10_000])
def test_a_reader_goes_back_from_the_end(logs, two_attempts, limit):
    page = logs.get_log_events(**STREAM, limit=limit)
    assert messages(page) == two_attempts[-min(limit, 2) :]
    behind, lines = page["nextForwardToken"], []
    while True:
        lines = messages(page) + lines
        before = page["nextBackwardToken"]
        page = logs.get_log_events(**STREAM, limit=limit, nextToken=before)
        if page["nextBackwardToken"] == before:
            break
    assert lines == two_attempts
    written(AGAIN, "step 6", at=NOW + 3000)
    page = logs.get_log_events(**STREAM, startFromHead=True, nextToken=behind)
    assert messages(page) == ["step 6"]


def test_a_reader_turns_round_within_the_log(logs, two_attempts):
    first = logs.get_log_events(**STREAM, startFromHead=True, limit=2)
    second = logs.get_log_events(**STREAM, limit=2, nextToken=first["nextForwardToken"])
    assert messages(second) == ["step 3"]
    back = logs.get_log_events(**STREAM, limit=2, nextToken=second["nextBackwardToken"])
    assert messages(back) == ["step 1", "step 2"]
    again = logs.get_log_events(**STREAM, limit=2, nextToken=back["nextForwardToken"])
    assert messages(again) == ["step 3"]
    notice = logs.get_log_events(**STREAM, limit=2, nextToken=again["nextForwardToken"])
    assert messages(notice) == [NOTICE]
    before = logs.get_log_events(**STREAM, limit=2, nextToken=notice["nextBackwardToken"])
    assert messages(before) == ["step 2", "step 3"]


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ({"startTime": 0}, slice(None)),
        ({"startTime": NOW + 2}, slice(2, None)),
        ({"startTime": NOW + 1001}, slice(4, None)),
        ({"endTime": NOW + 1500}, slice(4)),
        ({"endTime": NOW + 900}, slice(3)),
        ({"startTime": NOW + 1, "endTime": NOW + 900}, slice(1, 3)),
        ({"startTime": NOW + 9000}, slice(0, 0)),
    ],
)
def test_the_times_bound_the_lines(logs, two_attempts, times, expected):
    lines, token = [], {}
    while True:
        page = logs.get_log_events(**STREAM, startFromHead=True, **times, **token)
        lines += messages(page)
        if token == {"nextToken": page["nextForwardToken"]}:
            break
        token = {"nextToken": page["nextForwardToken"]}
    assert lines == two_attempts[expected]
    last = messages(logs.get_log_events(**STREAM, **times))
    assert last == lines[-len(last) :] if last else lines == []


def test_a_job_without_lines_reports_its_status_at_the_end_too(logs, queue):
    queue.jobs["job1"] = running(attempts=[attempt(1)])
    page = logs.get_log_events(**STREAM)
    assert messages(page) == ["slotq: job1: running in pool p5 (attempt 1: job1)"]
    again = logs.get_log_events(**STREAM, startFromHead=True, nextToken=page["nextForwardToken"])
    assert again["events"] == []


def test_the_log_group_may_be_named_by_its_arn(logs, two_attempts):
    arn = f"arn:aws:logs:eu-west-1:123456789012:log-group:{LOG_GROUP}"
    for group in (LOG_GROUP, arn, f"{arn}:*"):
        page = logs.get_log_events(
            logGroupIdentifier=group, logStreamName="job1/algo-1-slotq", startFromHead=True
        )
        assert messages(page) == two_attempts[:3]
        found = logs.describe_log_streams(logGroupIdentifier=group, logStreamNamePrefix="job1/")
        assert len(found["logStreams"]) == 1


def test_lines_are_unmasked_where_the_reader_asks(logs, two_attempts):
    asked = []

    def look(params, **_):
        asked.append((params["logStreamName"], params.get("unmask")))

    event = "before-parameter-build.logs.GetLogEvents"
    boto_session().events.register(event, look)
    try:
        boto_session().client("logs").get_log_events(**STREAM, startFromHead=True, unmask=True)
    finally:
        boto_session().events.unregister(event, look)
    assert asked[1:] == [("job1/algo-1-1700000000", True)]


def streams(logs, **asked):
    return logs.describe_log_streams(logGroupName=LOG_GROUP, logStreamNamePrefix="job1/", **asked)


def test_log_streams_come_in_pages_in_the_order_that_is_asked_for(logs, queue):
    queue.jobs["job1"] = running(demand={"slots": 60})
    names = sorted(f"job1/algo-{n}-slotq" for n in range(1, 61))
    pages = logs.get_paginator("describe_log_streams").paginate(
        logGroupName=LOG_GROUP, logStreamNamePrefix="job1/"
    )
    found = [[stream["logStreamName"] for stream in page["logStreams"]] for page in pages]
    assert [len(page) for page in found] == [50, 10]
    assert [name for page in found for name in page] == names
    page = streams(logs, limit=2, descending=True, orderBy="LogStreamName")
    assert [stream["logStreamName"] for stream in page["logStreams"]] == names[:-3:-1]
    with pytest.raises(ClientError, match="LastEventTime"):
        streams(logs, orderBy="LastEventTime")
    with pytest.raises(ClientError, match="nextToken"):
        streams(logs, nextToken="of another call")


@pytest.mark.parametrize(
    "named",
    [
        {"logStreamNames": ["job1/algo-1-slotq"]},
        {"logStreamNamePrefix": "job1/"},
        {"logStreamNamePrefix": "job1/algo-1"},
        {"logStreamNamePrefix": "job1/algo-1-slotq"},
    ],
)
def test_filtering_reads_the_streams_of_all_attempts(logs, queue, two_attempts, named):
    written("job1", "of a second host", host=2)
    written("job1", "of a tenth host", host=10)
    found = logs.filter_log_events(logGroupName=LOG_GROUP, interleaved=True, **named)
    lines = messages(found)
    others = (
        {"of a second host", "of a tenth host"}
        if named == {"logStreamNamePrefix": "job1/"}
        else set()
    )
    assert set(lines) == {f"step {n}" for n in range(1, 6)} | others
    asked = {"logGroupName": LOG_GROUP, "startTime": NOW + 2000, "limit": 1}
    pages = logs.get_paginator("filter_log_events").paginate(**asked, **named)
    assert [messages(page) for page in pages] == [["step 4"], ["step 5"]]


def test_filtering_a_job_without_log_streams_finds_nothing(logs, queue):
    queue.jobs["job1"] = running(attempts=[attempt(1, running_since=None)])
    found = logs.filter_log_events(logGroupName=LOG_GROUP, logStreamNamePrefix="job1/")
    assert found["events"] == []
    with pytest.raises(ClientError, match="of job job1 alone"):
        logs.filter_log_events(
            logGroupName=LOG_GROUP, logStreamNames=["job1/algo-1-slotq", "other/algo-1-1"]
        )


def test_filtering_streams_that_are_not_the_queues_is_cloudwatchs(logs, queue):
    written("other", "a line")
    found = logs.filter_log_events(logGroupName=LOG_GROUP, logStreamNamePrefix="other/")
    assert messages(found) == ["a line"]


def test_more_streams_than_a_filter_takes_are_refused_by_name(logs, queue):
    for n in range(1, 102):
        written("job1", "a line", host=n)
    queue.jobs["job1"] = running(demand={"slots": 101})
    with pytest.raises(ClientError, match="has 101 log streams"):
        logs.filter_log_events(logGroupName=LOG_GROUP, logStreamNamePrefix="job1/")
    found = logs.filter_log_events(logGroupName=LOG_GROUP, logStreamNames=["job1/algo-7-slotq"])
    assert messages(found) == ["a line"]
