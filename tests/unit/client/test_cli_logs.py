"""`slotq logs`: the output of a job's attempts, once or followed to the end."""

from __future__ import annotations

import json

import pytest

from slotq.cli.exits import ExitCode
from slotq.output.json_views import LogLine
from tests.unit.client.fake_aws import FakeLogs, FakeServices, refused
from tests.unit.client.fake_queue import attempt, ended, running, waiting


@pytest.fixture
def logs():
    second = ["again from 2", "step 3"]
    return FakeLogs({"job1": ["step 1", "step 2"], "job1-qstamp-2-abcdef": second})


@pytest.fixture
def run(slotq, logs):
    return lambda *words: slotq("logs", *words, world={"aws": FakeServices(logs)})


def test_logs_of_all_attempts_are_printed_in_order(run):
    result = run("job1")
    assert (result.exit_code, result.output) == (
        ExitCode.OK,
        "step 1\nstep 2\nagain from 2\nstep 3\n",
    )


def test_logs_of_one_attempt_can_be_chosen(run):
    assert run("job1", "--attempt", "2").output == "again from 2\nstep 3\n"
    result = run("job1", "--attempt", "3")
    assert result.exit_code == ExitCode.NO
    assert "has begun 2 attempts; there is no attempt 3" in result.stderr


def test_json_is_one_document_for_each_line(run):
    lines = [
        LogLine.model_validate_json(line) for line in run("job1", "--json").output.splitlines()
    ]
    assert [(each.training_job, each.message) for each in lines][1:3] == [
        ("job1", "step 2"),
        ("job1-qstamp-2-abcdef", "again from 2"),
    ]


def test_a_job_that_has_not_run_has_no_logs(run):
    result = run("job3")
    assert (result.exit_code, result.stdout) == (ExitCode.OK, "")
    assert result.stderr.startswith("job3: waiting, place 1")


def test_denied_logs_are_an_error_not_empty_logs(run, logs, queue):
    logs.trouble = refused("DescribeLogStreams")
    result = run("job1")
    assert result.exit_code == ExitCode.NOT_ALLOWED
    assert "the logs of job1 cannot be read" in result.stderr
    assert "logs:GetLogEvents" in result.stderr
    queue.script(running(), running(), ended())
    result = run("job1", "-f")
    assert result.exit_code == ExitCode.OK, "the job goes on"
    assert result.stderr.count("cannot be read (the job goes on)") == 1


def test_logs_are_read_to_their_end_in_pages_some_of_which_are_empty(slotq):
    logs = FakeLogs({"job1": [f"step {n}" for n in range(25)]}, page=10)
    result = slotq("logs", "job1", "--attempt", "1", world={"aws": FakeServices(logs)})
    assert result.stdout.splitlines() == [f"step {n}" for n in range(25)]


def test_logs_go_on_after_a_passing_trouble(run, queue, logs, clock):
    def passes():
        logs.trouble = None

    logs.trouble = refused("GetLogEvents", "ThrottlingException")
    clock.after_sleep = passes
    queue.script(running(), running(), running(), ended())
    result = run("job1", "-f")
    assert result.exit_code == ExitCode.OK
    assert result.stderr.count("cannot be read (the job goes on)") == 1
    assert [line for line in result.stdout.splitlines() if line.startswith("step")] == [
        "step 1",
        "step 2",
    ]


def test_logs_are_followed_across_an_eviction(run, queue, logs, clock):
    first = attempt(1, outcome="evicted", stop_cause="evicted", stopped_for="job4")
    over = [first.model_copy(update={"ended_at": "x"}), attempt(2)]
    queue.script(
        running(),
        running(),
        waiting(1, evictions=1, attempts=over[:1]),
        running(2, evictions=1, attempts=over),
        ended(number=2, evictions=1, attempts=over),
    )
    result = run("job1", "-f")
    assert result.exit_code == ExitCode.OK
    lines = result.output.splitlines()
    assert [line for line in lines if "step" in line or "again" in line] == [
        "step 1", "step 2", "again from 2", "step 3",
    ]  # fmt: skip
    assert any("was evicted for job4" in line for line in lines)
    assert lines[-1] == "job1: completed after 2 attempts, evicted 1 time"


def test_notices_while_following_as_json_go_to_stderr(run, queue):
    queue.script(running(), running(), ended("failed", message="out of memory"))
    result = run("job1", "-f", "--json")
    assert result.exit_code == ExitCode.NO
    assert [json.loads(line)["message"] for line in result.stdout.splitlines()] == [
        "step 1",
        "step 2",
    ]
    assert result.stderr.splitlines()[-1].endswith("out of memory")


def test_an_interrupt_says_that_the_job_continues(run, clock):
    def interrupt():
        raise KeyboardInterrupt

    clock.after_sleep = interrupt
    result = run("job1", "-f")
    assert result.exit_code == ExitCode.INTERRUPTED
    assert "slotq cancel job1" in result.stderr
