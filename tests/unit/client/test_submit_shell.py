"""`slotq submit --shell` and `slotq shell --wait`: the request, the wait, and what ends it."""

from __future__ import annotations

import json
import os
import re
import stat

import pytest

from slotq.cli.exits import ExitCode
from slotq.remote_shell.plugin import PLUGIN
from slotq_core.wire.document.contents import read
from slotq_core.wire.views.about import MembershipView
from tests.least_request import least_request
from tests.unit.client.fake_queue import (
    attempt,
    ended,
    job_view,
    no_connection,
    pool_view,
    running,
    waiting,
)
from tests.unit.client.test_shell import FakeAws

LOST = "TargetNotConnected"


@pytest.fixture
def aws():
    return FakeAws(SecondaryStatus="Training")


@pytest.fixture(autouse=True)
def plugin(tmp_path, monkeypatch, aws):
    path = tmp_path / PLUGIN
    path.write_text("#!/bin/sh\nexit 7\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr("slotq.transport.aws_session.made", lambda *_, **__: aws)
    return path


@pytest.fixture
def file(tmp_path):
    def write(**fields):
        path = tmp_path / "job.json"
        path.write_text(json.dumps({**least_request("lab"), **fields}))
        return str(path)

    return write


@pytest.fixture
def submit(slotq, queue, file):
    """Submits `lab`, for which the queue then answers with these views."""

    def run(*views, words=(), **fields):
        queue.pools = [pool_view("p5")]
        if views:
            queue.scripts["lab"] = [view.model_copy(update={"name": "lab"}) for view in views]
        return slotq("submit", file(**fields), "--shell", *words)

    return run


def lines(result):
    return result.stderr.splitlines()


def test_the_wait_shows_place_and_reason_and_then_the_shell_opens(submit, queue, aws):
    starting = running(1, state="starting", training_job=None)
    result = submit(waiting(2), waiting(1), starting, running(1), running(1))
    assert result.exit_code == 7
    assert lines(result) == [
        "lab: waiting, place 2 in the line (1 ahead, since 2026-11-20 10:30 UTC): the pool is full",
        "lab: waiting, place 1 in the line (0 ahead, since 2026-11-20 10:30 UTC): the pool is full",
        "lab: starting in pool p5 (attempt 1)",
        "lab: running in pool p5 (attempt 1: job1)",
        "lab goes on: `slotq shell lab` opens another shell, `slotq cancel lab` ends the job",
    ]
    assert aws.targets == ["sagemaker-training-job:job1_algo-1"]
    assert queue.requests["lab"]["RemoteDebugConfig"] == {"EnableRemoteDebug": True}


def test_a_container_that_does_not_answer_yet_is_asked_again(submit, aws):
    aws.codes = [LOST, LOST, ""]
    result = submit(running(1))
    assert result.exit_code == 7
    assert lines(result)[1] == "lab: its container starts"
    assert aws.codes == []


def test_a_container_that_never_answers_ends_the_wait_with_advice(submit, aws, clock):
    aws.codes = [LOST] * 1000
    result = submit(running(1))
    assert (result.exit_code, "ssmmessages:CreateControlChannel" in result.stderr) == (
        ExitCode.NO,
        True,
    )
    assert 300 <= clock.now < 320


def test_downloads_may_take_hours(submit, aws, clock):
    aws.described["SecondaryStatus"] = "Downloading"

    def downloaded():
        if clock.now > 3 * 3600:
            aws.described["SecondaryStatus"] = "Training"

    clock.after_sleep = downloaded
    assert submit(running(1)).exit_code == 7
    assert clock.now > 3 * 3600


def test_a_shell_that_is_refused_says_that_the_job_goes_on(submit, aws):
    """The job may hold an instance for hours while its submitter looks for rights."""
    aws.codes = ["AccessDeniedException"]
    result = submit(running(1))
    assert result.exit_code == ExitCode.NO
    assert "you need ssm:StartSession" in lines(result)[-2]
    assert lines(result)[-1] == (
        "lab goes on: `slotq shell lab --wait` tries again, `slotq cancel lab` ends the job"
    )


def test_an_attempt_that_is_evicted_first_is_followed_to_the_next(submit, aws):
    aws.codes = [LOST, LOST, ""]
    evicted = [attempt(1, outcome="evicted", stop_cause="evicted", stopped_for="job4")]
    again = waiting(1, state="preempted", attempts_begun=1, attempts=evicted, evictions=1)
    result = submit(running(1), again, running(2), running(2), running(2))
    assert result.exit_code == 7
    assert "was evicted for job4; now waiting" in result.stderr
    assert aws.targets == ["sagemaker-training-job:job1-qstamp-2-abcdef_algo-1"]


@pytest.mark.parametrize(
    ("end", "said"),
    [
        (job_view(state="cancelled", message="cancelled by grace"), "cancelled by grace"),
        (ended("failed", message="exit code: 1"), "failed after 1 attempt: exit code: 1"),
        (ended(), "completed after 1 attempt"),
    ],
)
def test_a_job_that_ends_before_it_can_be_entered_is_told(submit, aws, end, said):
    result = submit(waiting(1), end)
    assert result.exit_code == ExitCode.NO
    assert lines(result)[-1].startswith("slotq: job lab ended before a shell could open: ")
    assert lines(result)[-1].endswith(said)
    assert aws.targets == []


def test_a_held_job_is_told_and_waited_for(submit, queue):
    result = submit(job_view(state="held"), running(1))
    assert result.exit_code == 7
    assert "lab: held since" in result.stderr


def test_ctrl_c_leaves_the_job_in_the_queue_and_says_how_to_come_back(submit, queue, clock):
    def stop():
        raise KeyboardInterrupt

    clock.after_sleep = stop
    result = submit(waiting(1))
    assert result.exit_code == ExitCode.INTERRUPTED
    assert lines(result)[-1] == (
        "lab stays in the queue: `slotq shell lab --wait` comes back to it, `slotq cancel lab` "
        "cancels it"
    )
    assert queue.jobs["lab"].state == "pending"


def test_one_comes_back_with_shell_and_wait(slotq, queue):
    queue.script(waiting(1, name="lab"), running(1, name="lab"))
    result = slotq("shell", "lab", "--wait")
    assert result.exit_code == 7
    assert "waiting, place 1" in result.stderr
    assert "goes on" not in result.stderr


def test_an_unknown_job_is_not_waited_for(slotq):
    result = slotq("shell", "jbo1", "--wait")
    assert (result.exit_code, "Did you mean job1" in result.stderr) == (ExitCode.NO, True)


def test_an_unreachable_queue_has_its_own_code_after_a_while(submit, http, clock):
    clock.after_sleep = lambda: http.troubles.extend([no_connection()] * 20)
    assert submit(waiting(1)).exit_code == ExitCode.UNREACHABLE


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"RemoteDebugConfig": {"EnableRemoteDebug": False}},
            "the request sets RemoteDebugConfig.EnableRemoteDebug to false",
        ),
        ({"EnableNetworkIsolation": True}, "the request sets EnableNetworkIsolation to true"),
    ],
)
def test_a_request_that_excludes_a_shell_is_not_queued(submit, queue, fields, said):
    result = submit(**fields)
    assert (result.exit_code, said in result.stderr) == (ExitCode.NO, True)
    assert "lab" not in queue.requests


def test_a_field_without_value_excludes_nothing(submit):
    assert submit(running(1), EnableNetworkIsolation=None, RemoteDebugConfig=None).exit_code == 7


ISOLATED = {"EnableNetworkIsolation": True}
OFF = {"RemoteDebugConfig": {"EnableRemoteDebug": False}}


@pytest.mark.parametrize(
    ("rules", "words", "said"),
    [
        ({"fixed": ISOLATED}, (), "project nlp fixes EnableNetworkIsolation to true"),
        ({"fixed": ISOLATED}, ("--project", "nlp"), "project nlp fixes EnableNetworkIsolation"),
        ({"fixed": OFF}, (), "fixes RemoteDebugConfig.EnableRemoteDebug to false"),
        (
            {"fixed": {"RemoteDebugConfig.EnableRemoteDebug": False}},
            (),
            "fixes RemoteDebugConfig.EnableRemoteDebug to false",
        ),
        ({"defaults": ISOLATED}, (), "by default: SSM does not reach a container"),
    ],
)
def test_a_project_that_excludes_a_shell_is_told_before_the_job_is_queued(
    submit, queue, rules, words, said
):
    prescribe(queue, rules)
    result = submit(words=words)
    assert (result.exit_code, said in result.stderr) == (ExitCode.NO, True), result.stderr
    assert "lab" not in queue.requests


@pytest.mark.parametrize(
    ("rules", "fields"),
    [
        ({"defaults": ISOLATED}, {"EnableNetworkIsolation": False}),
        ({"defaults": OFF}, {}),
        ({"fixed": {"EnableNetworkIsolation": False}}, {}),
        ({}, {}),
    ],
)
def test_a_project_that_allows_a_shell_does_not_hinder(submit, queue, rules, fields):
    prescribe(queue, rules)
    assert submit(running(1), **fields).exit_code == 7


def test_without_a_default_project_the_queue_decides(submit, queue):
    prescribe(queue, {"fixed": ISOLATED})
    queue.projects = []
    assert submit(running(1)).exit_code == 7


def prescribe(queue, rules):
    """`nlp` has these rules and is the caller's default project."""
    queue.projects = [MembershipView(name="nlp", role="member", default=True)]
    pool = {"name": "p5", "capacity": 4, "instance_type": "ml.p5.48xlarge"}
    project = {"name": "nlp", "quota": 2, "requests": rules}
    queue.configuration.settings = read({"pools": [pool], "projects": [project]})


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--wait",), "--shell or --wait"),
        (("--json",), "it takes the terminal"),
        (("--forward", "8888"), "--shell or --forward"),
    ],
)
def test_options_that_exclude_a_shell_are_a_wrong_command_line(submit, queue, words, said):
    result = submit(words=words)
    assert (result.exit_code, said in result.stderr) == (ExitCode.USAGE, True)
    assert "lab" not in queue.requests


def test_a_request_from_the_standard_input_leaves_none_to_the_shell(slotq, queue):
    result = slotq("submit", "-", "--shell", input=json.dumps(least_request("lab")))
    assert (result.exit_code, "save the request in a file" in result.stderr) == (
        ExitCode.USAGE,
        True,
    )
    assert "lab" not in queue.requests


def test_a_machine_without_the_plugin_is_told_before_the_job_is_queued(submit, queue, plugin):
    plugin.unlink()
    result = submit()
    assert (result.exit_code, "install it" in result.stderr) == (ExitCode.NO, True)
    assert "lab" not in queue.requests


def test_a_dry_run_shows_the_request_on_any_machine(submit, queue, plugin):
    plugin.unlink()
    result = submit(words=("--dry-run",))
    assert result.exit_code == ExitCode.OK
    assert json.loads(result.stdout)["RemoteDebugConfig"] == {"EnableRemoteDebug": True}
    assert "lab" not in queue.requests


def test_ports_are_forwarded_when_the_job_starts(slotq, queue, file, aws):
    """From a file on the standard input, too: nobody types into a forward."""
    queue.pools = [pool_view("p5")]
    views = [waiting(1), running(1), ended(), ended()]
    queue.scripts["lab"] = [view.model_copy(update={"name": "lab"}) for view in views]
    result = slotq("submit", "-", "--forward", "8888", input=json.dumps(least_request("lab")))
    assert result.exit_code == ExitCode.OK, result.output
    assert re.fullmatch(r"127\.0\.0\.1:[0-9]+ -> lab:8888\n", result.stdout)
    assert lines(result)[-1] == ("lab: forwarding has ended; the job is completed after 1 attempt")
    assert aws.requests[0]["DocumentName"] == "AWS-StartPortForwardingSession"
    assert queue.requests["lab"]["RemoteDebugConfig"] == {"EnableRemoteDebug": True}


def test_one_leaves_the_wait_for_a_forward_and_comes_back_to_it(slotq, queue, file, clock):
    def stop():
        raise KeyboardInterrupt

    clock.after_sleep = stop
    result = slotq("submit", file(), "--forward", "8888:9999", "--forward", "6006")
    assert result.exit_code == ExitCode.INTERRUPTED
    assert "`slotq shell lab --forward 8888:9999 --forward 6006 --wait`" in result.stderr
