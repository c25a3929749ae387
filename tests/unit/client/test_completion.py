"""Shell completion of commands, options and names in the queue."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading

import pytest
from click.shell_completion import ShellComplete

from slotq.cli import name_arguments
from slotq.cli.machine.completion import SHELLS
from slotq.cli.main import cli
from tests.unit.client.fake_queue import job_view, no_connection, pool_view, served


@pytest.fixture
def completed(app):
    def run(*words, **world):
        shell = ShellComplete(cli, {"obj": app(**world)}, "slotq", "_SLOTQ_COMPLETE")
        *before, incomplete = words
        return [item.value for item in shell.get_completions(list(before), incomplete)]

    return run


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_has_a_script(slotq, shell):
    if shell == "bash" and shutil.which("bash") is None:
        pytest.skip("click asks bash for its version")
    output = slotq("completion", shell).output
    assert "_SLOTQ_COMPLETE" in output
    assert shell in output


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_bash_accepts_the_script(slotq):
    script = slotq("completion", "bash").output
    told = subprocess.run(
        ["bash", "-c", 'eval "$1"; complete -p slotq', "bash", script],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "_slotq_completion" in told.stdout
    assert told.stderr == ""


def test_an_unknown_shell_is_refused(slotq):
    assert slotq("completion", "tcsh").exit_code == 2


def test_commands_and_options_are_completed(completed):
    assert completed("re") == ["retry", "release", "requeue", "reserve", "reservations"]
    assert completed("ls", "--s") == ["--state", "--submitter", "--since", "--sort"]
    assert completed("ls", "--state", "st") == ["starting", "stopping", "stopped"]
    assert completed("completion", "") == list(SHELLS)


@pytest.mark.parametrize(
    ("verb", "found"),
    [
        ("cancel", ["job1", "job3", "kept"]),
        ("show", ["job1", "job3", "job9", "kept"]),
        ("hold", ["job3"]),
        ("release", ["kept"]),
        ("requeue", ["job1"]),
        ("retry", ["job9"]),
        ("logs", ["job1", "job3", "job9", "kept"]),
        ("watch", ["job1", "job3", "kept"]),
    ],
)
def test_a_verb_completes_names_of_jobs_it_applies_to(completed, queue, verb, found):
    queue.jobs["kept"] = job_view("kept", "held")
    assert sorted(completed(verb, "")) == found
    assert sorted(completed(verb, "j")) == [name for name in found if name != "kept"]


def test_further_names_and_pools_are_completed(completed, queue):

    queue.pools = [pool_view("p5"), pool_view("p4")]
    assert completed("cancel", "job1", "job3") == ["job3"]
    assert completed("move", "p") == ["p5", "p4"]
    assert completed("move", "p5,") == ["p5,p4"]
    assert completed("move", "p5", "job3") == ["job3"]
    assert completed("transfer", "speech", "job3") == ["job3"]
    assert completed("submit", "--pools", "p4") == ["p4"]


def test_completion_is_silent_when_the_queue_does_not_answer(completed, http, capsys):
    http.troubles = [no_connection()] * 9
    assert completed("show", "j") == []
    assert completed("show", "j", connect=None) == [], "no endpoint is configured"
    assert capsys.readouterr() == ("", "")


def test_completion_gives_up_within_a_short_time(completed, monkeypatch):
    monkeypatch.setattr(name_arguments, "PATIENCE", 0.05)
    done = threading.Event()
    assert completed("show", "j", connect=lambda _: done.wait()) == [], (
        "and the queue never answers"
    )
    done.set()


def test_completion_asks_the_queue_once_over_a_real_connection(queue):
    """As the shell asks: in a separate process, with the group's options before the command."""
    with served(queue) as endpoint:
        words = f"slotq --endpoint {endpoint} show job"
        asked = subprocess.run(
            [sys.executable, "-m", "slotq.cli"],
            env={
                **os.environ,
                "_SLOTQ_COMPLETE": "bash_complete",
                "COMP_WORDS": words,
                "COMP_CWORD": "4",
                "SLOTQ_REGION": "eu-west-1",
            },
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert asked.stdout.split() == ["plain,job1", "plain,job3", "plain,job9"], asked.stderr
