"""Log lines that a job's node printed itself, because it did not reach CloudWatch Logs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from moto import mock_aws

from slotq.jobs.job_logs import LATE_READS, LogTail, failure_log
from slotq.session.answers.log_calls import LogCalls
from slotq_core.names import LOG_GROUP
from slotq_core.timestamps import iso
from slotq_core.wire.views.jobs import AttemptView, JobView
from tests.unit.client.fake_queue import attempt, running
from tests.unit.nodes.agent import agent

NOW = time.time_ns() // 1_000_000
NODE = "p5-node-1-qstamp-3-0123abcd"


@pytest.fixture
def logs() -> Iterator[Any]:
    with mock_aws():
        client = boto3.Session().client("logs", region_name="eu-west-1")
        client.create_log_group(logGroupName=LOG_GROUP)
        yield Counted(client)


class Counted:
    """CloudWatch's client, with the calls that it got."""

    def __init__(self, client: Any) -> None:
        self.client, self.calls = client, []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.client, name)

    def get_paginator(self, name: str) -> Any:
        paginate = self.client.get_paginator(name).paginate

        def counted(**words: Any) -> Any:
            self.calls.append(words["logStreamNamePrefix"])
            return paginate(**words)

        return SimpleNamespace(paginate=counted)

    def get_log_events(self, **words: Any) -> Any:
        self.calls.append(words["logStreamName"])
        return self.client.get_log_events(**words)


def written(logs: Any, training_job: str, *lines: str, at: int = NOW) -> None:
    stream = {"logGroupName": LOG_GROUP, "logStreamName": f"{training_job}/algo-1-1700000000"}
    if not logs.client.describe_log_streams(
        logGroupName=LOG_GROUP, logStreamNamePrefix=stream["logStreamName"]
    )["logStreams"]:
        logs.client.create_log_stream(**stream)
    events = [{"timestamp": at + n, "message": line} for n, line in enumerate(lines)]
    logs.client.put_log_events(**stream, logEvents=events)


def printed(capsys: pytest.CaptureFixture[str], training_job: str, *lines: bytes) -> list[str]:
    """What the agent prints for an attempt without a way to CloudWatch Logs."""
    capsys.readouterr()
    stream = agent.LogStream(None, training_job, "algo-1")
    for line in lines:
        stream.line(line)
    stream._is_closed = True
    stream.run()
    return capsys.readouterr().out.splitlines()


def on_node(number: int = 1, **fields: Any) -> AttemptView:
    given = {"node": "node-1", "node_training_job": NODE, "admitted_at": iso(NOW - 1_000)}
    return attempt(number, **(given | fields))


def job_of(*attempts: AttemptView, **fields: Any) -> JobView:
    return running(len(attempts), **({"attempts": [*attempts]} | fields))


def shown(tail: LogTail, job: JobView, seen: list[tuple[str, str]]) -> list[tuple[str, str]]:
    seen.clear()
    tail.show(job)
    return [*seen]


def tail_of(logs: Any, seen: list[tuple[str, str]], **words: Any) -> LogTail:
    return LogTail(logs, say=pytest.fail, line=lambda *line: seen.append(line), **words)


def test_each_attempt_gets_its_own_lines_and_not_its_neighbours(logs, capsys):
    lines = [
        *printed(capsys, "job1", b"step 1", b"[job10] not a neighbour's"),
        *printed(capsys, "job10", b"a neighbour's", b"[job1] still a neighbour's"),
        *printed(capsys, "job1-qstamp-2-abcdef", b"step 3"),
        "the node's own",
        *printed(capsys, "job1", b"step 2"),
    ]
    written(logs, NODE, *lines)
    seen: list[tuple[str, str]] = []
    tail, job = tail_of(logs, seen), job_of(on_node(1, ended_at=iso(NOW + 9)), on_node(2))
    assert shown(tail, job, seen) == [
        ("job1", "step 1"),
        ("job1", "[job10] not a neighbour's"),
        ("job1", "step 2"),
        ("job1-qstamp-2-abcdef", "step 3"),
    ]
    assert shown(tail, job, seen) == [], "each line once"
    written(logs, NODE, *printed(capsys, "job1-qstamp-2-abcdef", b"step 4"), at=NOW + 20)
    assert shown(tail, job, seen) == [("job1-qstamp-2-abcdef", "step 4")]


def test_only_the_attempts_own_time_is_read(logs):
    written(logs, NODE, "[job1] of an earlier job of that name", at=NOW - 60_000)
    written(logs, NODE, "[job1] step 1")
    for hour in range(1, 4):
        written(logs, NODE, *["[other] line"] * 10_000, at=NOW + hour * 1_800_000)
    seen: list[tuple[str, str]] = []
    tail, job = tail_of(logs, seen), job_of(on_node(ended_at=iso(NOW + 9)))
    assert shown(tail, job, seen) == [("job1", "step 1")]
    for _ in range(LATE_READS + 1):
        assert shown(tail, job, seen) == []
    assert logs.calls.count(f"{NODE}/algo-1-1700000000") <= 1 + LATE_READS
    last = tail_of(logs, seen, last=5)
    assert shown(last, job, seen) == [("job1", "step 1")]


def test_a_job_with_a_stream_of_its_own_costs_no_call_more_until_its_end(logs):
    written(logs, "job1", "step 1")
    written(logs, NODE, "[job1] step 2")
    seen: list[tuple[str, str]] = []
    tail = tail_of(logs, seen)
    assert shown(tail, job_of(on_node()), seen) == [("job1", "step 1")]
    assert not [call for call in logs.calls if call.startswith(NODE)]
    ended = job_of(on_node(ended_at=iso(NOW + 9)), state="completed", pool=None)
    assert shown(tail, ended, seen) == [("job1", "step 2")]
    logs.calls.clear()
    whole = job_of(attempt(ended_at=iso(NOW + 9)), state="completed", pool=None)
    assert shown(tail_of(logs, seen), whole, seen) == [("job1", "step 1")]
    assert not [call for call in logs.calls if call.startswith(NODE)], "no node, no call"


def test_the_last_lines_of_a_failed_job_come_from_its_node(logs):
    written(logs, "job1", *(f"step {n}" for n in range(9)))
    written(logs, NODE, *(f"[{name}] late {n}" for n in range(4) for name in ("other", "job1")))
    failed = job_of(on_node(outcome="failed", ended_at=iso(NOW + 9)), state="failed", pool=None)
    _, *lines = failure_log(lambda: logs, failed)
    assert [line.strip() for line in lines] == [
        *(f"step {n}" for n in range(3, 9)),
        *(f"late {n}" for n in range(4)),
    ]


@pytest.mark.parametrize("own", [(), ("step 0",)])
def test_an_sdk_reads_the_lines_that_the_node_printed(logs, own):
    """fit(wait=True), by CloudWatch's own calls."""
    if own:
        written(logs, "job1", *own)
    for name in ("job1", "other"):
        written(logs, NODE, f"[{name}] step 1", f"[{name}] step 2")
    written(logs, NODE, *["[other] line"] * 9, at=NOW + 3_600_000)
    job = job_of(on_node(ended_at=iso(NOW + 9)), state="completed", pool=None)
    jobs: Any = SimpleNamespace(known=lambda name: job if name == "job1" else None)
    virtual = LogCalls(jobs, lambda: logs)
    lines, token = [], ""
    for _ in range(9):
        asked = {"startFromHead": True} | ({"nextToken": token} if token else {})
        answer = virtual.page("job1", "algo-1", asked)
        before, token = token, answer["nextForwardToken"]
        lines += [event["message"] for event in answer["events"]]
        if not answer["events"] and before == token:
            break
    else:
        pytest.fail("the stream has no end")
    assert lines == [*own, "step 1", "step 2", "slotq: job1: completed after 1 attempt"]
    back, page = [], virtual.page("job1", "algo-1", {"limit": 2})
    while page["events"]:
        back = [event["message"] for event in page["events"]] + back
        page = virtual.page("job1", "algo-1", {"nextToken": page["nextBackwardToken"], "limit": 2})
    assert back == [*own, "step 1", "step 2"]
