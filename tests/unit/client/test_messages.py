"""What the commands say to somebody who uses them for the first time: one row a message."""

from __future__ import annotations

import socket

import pytest
from botocore.exceptions import EndpointConnectionError

from slotq.cli.exits import ExitCode
from slotq.cli.main import COMMANDS, SECTIONS
from slotq.configuration.settings import Config
from slotq.errors import CannotReach
from slotq.jobs.follow import status_line
from slotq.jobs.job_logs import LONGEST_SHOWN
from slotq.transport.signed_http import TRIES
from slotq_core.admission.checkpoints import warning
from tests.unit.client.fake_aws import FakeLogs, FakeServices
from tests.unit.client.fake_queue import (
    FakeHttp,
    attempt,
    client_of,
    ended,
    pool_view,
    running,
    waiting,
)

COMMAND = ("--image", "i:1", "--role", "arn:aws:iam::123456789012:role/r", "--output", "s3://b/o")
TO_RUN = ("--", "true")


FILES = {
    "sweep.yaml": "{name: grid, template: {}, space: {lr: [1]}, max_paralel: 2}",
    "gang.yaml": "{name: ring, members: [], min_member: 2}",
    "rules.yaml": "{name: ring, members: [], gang: {min_member: 2}}",
    "train.py": "print(1)",
}


@pytest.fixture(autouse=True)
def pools(queue, tmp_path, monkeypatch):
    queue.pools = [pool_view("main"), pool_view("eu")]
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)


REFUSED = [
    (("submit", "--pools", "nope", *COMMAND, *TO_RUN), ExitCode.NO,
     "there is no pool 'nope'; the pools are main, eu"),
    (("submit", "--pools", "eu,mian", *COMMAND, *TO_RUN), ExitCode.NO, "did you mean 'main'?"),
    (("pools", "show", "mian"), ExitCode.NO,
     "there is no pool 'mian'; the pools are main, eu; did you mean 'main'?"),
    (("projects", "show", "nope"), ExitCode.NO, "there is no project 'nope'; the projects are nlp"),
    (("submit", "--max-runtime", "1x", *COMMAND, *TO_RUN), ExitCode.USAGE,
     "'1x' is neither seconds nor a time such as 90s, 30m, 2h, 7d or 1w"),
    (("submit", "--max-runtime", "0", *COMMAND, *TO_RUN), ExitCode.USAGE,
     "'0' is not from 1 to 2,419,200 seconds"),
    (("submit", "--min-runtime", "29d", *COMMAND, *TO_RUN), ExitCode.USAGE,
     "'29d' is not from 0 to 2,419,200 seconds"),
    (("pools", "set", "main", "--time-slice", "soon"), ExitCode.USAGE,
     "neither seconds nor a time"),
    (("ls", "--every", "1ms"), ExitCode.USAGE, "neither seconds nor a time"),
    (("ls", "--columns", "nmae"), ExitCode.USAGE, "did you mean 'name'?"),
    (("show", "jbo3"), ExitCode.NO, "Did you mean job3"),
    (("ls", "--pool", "mian"), ExitCode.NO,
     "there is no pool 'mian'; the pools are main, eu; did you mean 'main'?"),
    (("cancel", "--pool", "mian"), ExitCode.NO, "did you mean 'main'?"),
    (("sweep", "sweep.yaml"), ExitCode.USAGE, "did you mean 'max_parallel'?"),
    (("gang", "gang.yaml"), ExitCode.USAGE, "did you mean 'min_members' below gang?"),
    (("gang", "rules.yaml"), ExitCode.USAGE, "did you mean 'min_members'?"),
    (("submit", "train.py"), ExitCode.USAGE, "write `slotq submit -- python train.py`"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "code", "said"), REFUSED)
def test_a_refusal_says_what_would_be_right(slotq, words, code, said):
    result = slotq(*words)
    assert (result.exit_code, said in result.output) == (code, True), result.output


def main(queue):
    return next(pool.settings for pool in queue.pools if pool.name == "main")


TIMES = [("3600", 3600), ("1h", 3600), ("90m", 5400), ("2d", 172_800)]


@pytest.mark.parametrize(("text", "seconds"), TIMES)
def test_seconds_take_units(slotq, queue, text, seconds):
    result = slotq(
        "submit", "--max-runtime", text, "--min-runtime", text, *COMMAND, "--dry-run", *TO_RUN
    )
    assert f'"MaxRuntimeInSeconds": {seconds}' in result.output
    assert f'"Value": "{seconds}"' in result.output
    assert slotq("pools", "set", "main", "--time-slice", text).exit_code == ExitCode.OK
    assert main(queue).time_slice == seconds
    assert slotq("pools", "set", "main", "--time-slice", "none").exit_code == ExitCode.OK
    assert main(queue).time_slice is None


def test_the_help_has_each_command_under_one_heading(slotq):
    shown = slotq("--help").output
    assert [head for head in SECTIONS if f"\n{head}:\n" in shown] == [*SECTIONS]
    assert len(COMMANDS) == sum(map(len, SECTIONS.values()))
    for name in COMMANDS:
        assert f"\n  {name} " in shown


def no_address(code=socket.EAI_NONAME):
    failure = EndpointConnectionError(endpoint_url="https://x")
    failure.__cause__ = OSError("no connection")
    failure.__cause__.__cause__ = socket.gaierror(code, "Name or service not known")
    return failure


API = "https://abcdef1234.execute-api.us-east-1.amazonaws.com/prod"
UNREACHABLE = [
    (API, no_address(), ["no address is known for abcdef1234", "the API's id 'abcdef1234'",
                         "region 'us-east-1'", "a misspelt one has no address"]),
    ("https://quee.test/prod", no_address(), ["no address is known for quee.test", "spelling"]),
    (API, no_address(socket.EAI_AGAIN), ["name server does not answer", "online?"]),
    (API, EndpointConnectionError(endpoint_url=API), ["If the API is private"]),
]  # fmt: skip


@pytest.mark.parametrize(("endpoint", "trouble", "said"), UNREACHABLE)
def test_a_name_without_an_address_is_told_apart_from_a_private_api(endpoint, trouble, said):
    http = FakeHttp()
    http.troubles = [trouble] * TRIES
    with pytest.raises(CannotReach) as failed:
        client_of(http, config=Config(endpoint=endpoint, region="us-east-1")).jobs.view("job1")
    for text in said:
        assert text in str(failed.value)


def failed(**fields):
    last = attempt(1, outcome="failed", ended_at="2026-11-20T11:00:00.000Z", training_job="job7")
    message = "AlgorithmError: , exit code: 127"
    return ended("failed", name="job7", attempts=[last], message=message, **fields)


def logs(*lines):
    return {"aws": FakeServices(logs=FakeLogs({"job7": [*lines]}))}


@pytest.mark.parametrize("words", [("watch", "job7"), ("show", "job7")])
def test_a_failure_is_shown_with_its_last_log_lines(slotq, queue, words):
    queue.jobs["job7"] = failed()
    result = slotq(*words, world=logs(*(f"line {n}" for n in range(30)), "no\x1b such file"))
    assert "last lines of its log (`slotq logs job7` prints it whole)" in result.output
    assert "    line 21\n" in result.output
    assert "line 20\n" not in result.output
    assert "    no such file" in result.output


@pytest.mark.parametrize("words", [("watch", "job7"), ("show", "job7")])
def test_a_failure_is_shown_soon_where_cloudwatch_does_not_answer(slotq, queue, words):
    """As in a VPC without an endpoint for logs: boto3 tries for minutes."""
    queue.jobs["job7"] = failed()
    world = logs("line")
    slotq(*words, world=world)
    assert world["aws"].made == [("logs", True)]


def test_a_huge_log_line_of_a_failure_is_cut(slotq, queue):
    queue.jobs["job7"] = failed()
    result = slotq("watch", "job7", world=logs("[/b]" + "x" * 300_000, "last"))
    (line,) = (each for each in result.output.splitlines() if "xx" in each)
    assert line == "    [/b]" + "x" * (LONGEST_SHOWN - 4) + "…"
    assert "    last\n" in result.output


def test_where_no_log_can_be_read_the_failure_still_says_where_it_is(slotq, queue):
    queue.jobs["job7"] = failed()
    result = slotq("watch", "job7")
    assert "  log: `slotq logs job7`" in result.output
    assert slotq("watch", "job7", "--json").output.count("\n") == 1, "programs read views alone"


@pytest.mark.parametrize(
    "job",
    [
        ended("completed", name="job7"),
        ended("failed", name="job7", attempts=[]),
        failed(cause="max_runtime"),
    ],
)
def test_only_a_script_that_failed_has_its_log_shown(slotq, queue, job):
    queue.jobs["job7"] = job
    assert "log" not in slotq("watch", "job7", world=logs("x")).output.replace("logs  ", "")


class Evictable:
    name = "job3"


def test_the_warning_of_checkpoints_comes_with_the_submission_and_the_page(slotq, queue):
    lost = warning(Evictable())
    stalled = "the script has reported nothing for 3 h"
    queue.jobs["job3"] = waiting(1, name="job3", warnings=[lost, stalled])
    for words, told in (
        (("show", "job3"), True),
        (("why", "job3"), False),
        (("hold", "job3"), False),
        (("priority", "4", "job3"), False),
    ):
        said = " ".join(slotq(*words).output.split())
        assert (lost in said, stalled in said) == (told, True), (words, said)


def test_a_running_job_is_no_failure(slotq, queue):
    queue.jobs["job7"] = running(name="job7")
    assert "last lines" not in slotq("show", "job7", world=logs("x")).output


def test_a_kind_of_work_may_be_in_any_case(slotq, queue):
    done = slotq("submit", "--class", "Interactive", "--dry-run", *COMMAND, *TO_RUN)
    assert '"Value": "interactive"' in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("attempt_of", "said"),
    [
        ({"checkpoints": "s3://b/c"}, "starts again from its last checkpoint, if it has saved one"),
        ({}, "starts again from its beginning: it has no CheckpointConfig"),
        ({"running_since": None}, "keeps its place, and starts again"),
    ],
)
def test_what_an_evicted_job_goes_on_from_is_said_as_far_as_it_is_known(attempt_of, said):
    last = attempt(stop_cause="evicted", stopped_for="urgent", **attempt_of)
    assert status_line(running(state="stopping", attempts=[last])).endswith(said)
