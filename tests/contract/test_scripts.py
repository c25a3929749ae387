"""What every reader of training scripts must do: in memory, and in S3 (moto).

A report is a stranger's text. Nothing in it raises, counts for another job, or reaches a terminal
unescaped.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import boto3
import pytest
from moto import mock_aws

import slotq_training
from slotq.local.training.virtual_runner import VirtualClock
from slotq_core.adapters.dynamodb.reading.in_parallel import IN_FLIGHT, Threads
from slotq_core.adapters.memory.scripts import MemoryScripts
from slotq_core.adapters.scripts import LONGEST_BATCH, S3Scripts
from slotq_core.model.attempts import Attempt
from slotq_core.model.reports import (
    LONGEST_TEXT,
    MOST_METRICS,
    Report,
    Saved,
    SuspendSeen,
)
from slotq_core.ports.scripts import Scripts

BUCKET = "checkpoints"
Write = Callable[[str, bytes], None]


@pytest.fixture
def clock() -> VirtualClock:
    """S3 says itself when an object was written: the tests' time is moto's."""
    import time

    return VirtualClock(int(time.time() * 1000))


@pytest.fixture(params=["memory", "s3"])
def world(request: pytest.FixtureRequest, clock: VirtualClock) -> Iterator[tuple[Scripts, Write]]:
    if request.param == "memory":
        fake = MemoryScripts(clock)
        yield fake, fake.write
        return
    with mock_aws():
        s3 = boto3.client("s3", "us-east-1")
        s3.create_bucket(Bucket=BUCKET)

        def write(training_job: str, content: bytes) -> None:
            key = f"team/_slotq/{training_job}/report.json"
            s3.put_object(Bucket=BUCKET, Key=key, Body=content)

        yield S3Scripts(clock=clock, make_client=lambda: s3, at_once=Threads()), write


@pytest.fixture
def scripts(world: tuple[Scripts, Write]) -> Scripts:
    return world[0]


@pytest.fixture
def write(world: tuple[Scripts, Write]) -> Write:
    return world[1]


@pytest.fixture
def attempt(clock: VirtualClock) -> Attempt:
    return Attempt(
        number=1,
        training_job="job1",
        token="t",
        pool="p",
        instance_type="ml.m5.large",
        admitted_at=clock.now() - 3_600_000,
        checkpoints=f"s3://{BUCKET}/team/",
    )


def document(clock: VirtualClock, **fields: Any) -> bytes:
    now = clock.now()
    return json.dumps(
        {
            "version": 1,
            "training_job": "job1",
            "at": now - 1000,
            "started_at": now - 600_000,
            "step": 4200,
            "of": 10_000,
            "metrics": {"loss": 0.25},
            "reported_at": now - 2000,
            "first": {"step": 4000, "at": now - 302_000},
            "checkpoint": {"step": 4100, "epoch": 1, "at": now - 60_000, "seconds": 2.5},
            "suspend": None,
            **fields,
        }
    ).encode()


def test_a_report_is_read_whole(scripts, write, attempt, clock):
    now = clock.now()
    write("job1", document(clock))
    report = scripts.report(attempt)
    assert report is not None
    assert (report.step, report.of, report.at) == (4200, 10_000, now - 2000)
    assert report.saved == Saved(step=4100, at=now - 60_000, took=2500)
    assert (report.metrics, report.suspend) == ({"loss": 0.25}, None)
    assert report.eta(now) == 5800 * 1500 - 2000
    assert report.alive_at == now - 2000


def test_what_the_script_writes_is_understood(scripts, write, attempt, clock, monkeypatch):
    """Both ends know the format: here they meet."""
    monkeypatch.setenv("TRAINING_JOB_NAME", "job1")
    said = slotq_training._Reports()
    now = clock.now()
    said.first = {"step": 1, "at": now - 5000}
    said.latest = (6, 10, {"loss": 0.5, "odd": float("nan")}, now)
    said.saved(epoch=0, step=5, seconds=1.5)
    said.asked("marker")
    said.acknowledge()
    write("job1", said._document((said.latest, said._checkpoint, said._suspend)))
    report = scripts.report(attempt)
    assert report is not None
    assert (report.step, report.of, report.metrics) == (6, 10, {"loss": 0.5, "odd": "nan"})
    assert (report.began_step, report.began_at) == (1, now - 5000)
    assert report.saved is not None
    assert (report.saved.step, report.saved.took) == (5, 1500)
    assert report.suspend is not None
    assert report.suspend.marked and report.suspend.acknowledged_at is not None


def test_there_may_be_no_report_or_no_place(scripts, attempt):
    assert scripts.report(attempt) == Report()
    nowhere = replace(attempt, checkpoints="")
    assert scripts.report(nowhere) is None
    assert scripts.reports([attempt, nowhere]) == {"job1": Report()}
    assert scripts.reports([nowhere]) == scripts.reports([]) == {}


def test_reports_are_read_together(scripts, write, attempt, clock):
    names = [f"job{n}" for n in range(1, 40)]
    for name in names[::2]:
        write(name, document(clock, training_job=name))
    found = scripts.reports([replace(attempt, training_job=name) for name in names])
    assert sorted(found) == sorted(names)
    assert [name for name in names if found[name].step] == names[::2]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00\xff",
        b"null",
        b"[1, 2]",
        b'"text"',
        b"{" * 5000,
        b"[" * 60_000,
        b'{"version": 1, "step": ' + b"9" * 5000 + b"}",
        b'{"version": 2, "training_job": "job1", "step": 1, "reported_at": 1}',
        b'{"version": 1, "training_job": "job2", "step": 1, "reported_at": 1}',
        b'{"version": 1, "training_job": "job1", "padding": "' + b"x" * 70_000 + b'"}',
    ],
    ids=lambda content: repr(content[:30]),
)
def test_what_is_no_report_of_this_attempt_is_none(scripts, write, attempt, content):
    write("job1", content)
    assert scripts.report(attempt) is None
    assert scripts.reports([attempt, attempt]) == {}


@pytest.mark.parametrize(
    "value", [None, "7", True, [], {}, float("nan"), float("inf"), -1, 10**400]
)
def test_a_step_that_is_no_number_is_not_told(scripts, write, attempt, clock, value):
    write("job1", document(clock, step=value, of=value))
    report = scripts.report(attempt)
    assert report is not None
    assert (report.step, report.of, report.at, report.eta(clock.now())) == (None, None, None, None)
    assert report.saved is not None


@pytest.mark.parametrize("value", [None, 3, "text", [1], {"step": "x", "at": "y", "via": []}])
def test_a_part_of_another_form_is_left_out(scripts, write, attempt, clock, value):
    for key in ("metrics", "checkpoint", "suspend", "first"):
        write("job1", document(clock, **{key: value}))
        report = scripts.report(attempt)
        assert report is not None
        assert report.step == 4200


def test_no_moment_is_in_the_future_or_before_the_attempt(scripts, write, attempt, clock):
    year = 365 * 86_400_000
    write("job1", document(clock, reported_at=clock.now() + year, first={"step": 0, "at": -year}))
    clock.set(clock.now() + 2 * year)
    report = scripts.report(attempt)
    assert report is not None
    assert report.at is not None
    assert report.at <= clock.now() - 2 * year + 10_000, "no later than the report was written"
    assert report.began_at == attempt.admitted_at


def test_metrics_are_few_short_and_printable(scripts, write, attempt, clock):
    evil = {"\x1b[2J\x1b]0;title\x07loss": 1.5, "text": "a\x1b[31m\u202eb" + "c" * 1000, "\x07": 1}
    odd = {"nan": float("nan"), "none": None, "flag": True, "list": [1], "big": 10**500}
    many = {f"m{n}": n for n in range(2000)}
    write("job1", document(clock, metrics={**evil, **odd, **many}))
    report = scripts.report(attempt)
    assert report is not None
    assert len(report.metrics) == MOST_METRICS
    for name, value in report.metrics.items():
        assert name.isprintable()
        assert len(name) <= LONGEST_TEXT
        assert str(value).isprintable()
        assert len(str(value)) <= LONGEST_TEXT
    assert report.metrics["[2J]0;titleloss"] == 1.5
    assert json.loads(json.dumps(report.metrics, allow_nan=False))


def test_a_suspend_is_read(scripts, write, attempt, clock):
    at = clock.now() - 3000
    seen = {"via": "marker", "asked_at": at, "acknowledged_at": at, "released_at": None}
    write("job1", document(clock, suspend=seen))
    report = scripts.report(attempt)
    assert report is not None
    assert report.suspend == SuspendSeen(marked=True, acknowledged_at=at)


@pytest.mark.parametrize(
    "place", ["s3://", "s3://no-such-bucket/x", "file:///etc/passwd", "s3:///x", "s3", "S3://B"]
)
def test_a_place_that_is_none_is_not_read(attempt, clock, place):
    with mock_aws():
        scripts = S3Scripts(clock=clock, make_client=lambda: boto3.client("s3", "us-east-1"))
        assert scripts.report(replace(attempt, checkpoints=place)) is None


class _Slow:
    """S3 that takes a second for each answer, and has nothing."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock, self.asked = clock, 0

    def get_object(self, **_: Any) -> Any:
        self.asked += 1
        self.clock.set(self.clock.now() + 1000)
        raise TimeoutError


def test_a_batch_ends_soon_whatever_s3_does(attempt, clock):
    slow = _Slow(clock)
    scripts = S3Scripts(clock=clock, make_client=lambda: slow, at_once=Threads())
    many = [replace(attempt, training_job=f"job{n}") for n in range(1000)]
    assert scripts.reports(many) == {}
    assert slow.asked <= LONGEST_BATCH // 1000 + IN_FLIGHT


def test_no_client_is_no_report(attempt, clock):
    def broken() -> Any:
        raise RuntimeError("no region")

    scripts = S3Scripts(clock=clock, make_client=broken)
    assert scripts.report(attempt) is None
    assert scripts.reports([attempt, attempt]) == {}
