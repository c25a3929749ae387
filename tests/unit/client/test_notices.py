"""Notices: where they are printed and where they are logged."""

from __future__ import annotations

import io
import logging
import subprocess
import sys

import pytest

from slotq.jobs import progress
from slotq.jobs.follow import follow
from slotq.jobs.job import QueuedJob
from slotq.jobs.notices import Output, Trouble, print_line
from tests.unit.client.fake_queue import (
    Clock,
    FakeHttp,
    FakeQueue,
    client_of,
    ended,
    no_connection,
    running,
    waiting,
)


@pytest.fixture
def handled():
    """Add a handler to the root logger, as `logging.basicConfig(level=INFO)` does."""
    root, level = logging.getLogger(), logging.getLogger().level
    added = []

    def add(stream, level=logging.INFO):
        handler = logging.StreamHandler(stream)
        handler.setFormatter(logging.Formatter("%(name)s %(levelname)s %(message)s"))
        root.addHandler(handler)
        root.setLevel(level)
        added.append(handler)

    yield add
    root.setLevel(level)
    for handler in added:
        root.removeHandler(handler)


def test_without_logging_a_notice_is_printed_once(capsys):
    print_line("job1: waits")
    print_line(Trouble("no answer"))
    assert tuple(capsys.readouterr()) == ("job1: waits\nno answer\n", "")


def test_a_line_that_the_output_cannot_encode_ends_no_wait(monkeypatch):
    out = io.TextIOWrapper(io.BytesIO(), encoding="cp1252")
    monkeypatch.setattr(sys, "stdout", out)
    print_line(Output("größe ✓ 3"))
    assert out.buffer.getvalue().decode("cp1252").strip() == "größe ? 3"


@pytest.mark.parametrize("stream", ["out", "err"])
def test_a_notice_shown_by_logging_is_not_printed_too(capsys, handled, stream):
    handled(getattr(sys, f"std{stream}"))
    print_line("job1: waits")
    print_line(Trouble("no answer"))
    print_line(Output("step 1"))
    shown = capsys.readouterr()
    assert getattr(shown, stream).splitlines() == [
        "slotq INFO job1: waits",
        "slotq WARNING no answer",
        "slotq.training INFO step 1",
    ]
    assert not (shown.out and shown.err)


def test_a_notice_also_goes_to_a_log_file(capsys, handled):
    file = io.StringIO()
    handled(file)
    print_line("job1: waits")
    assert capsys.readouterr().out == "job1: waits\n"
    assert file.getvalue() == "slotq INFO job1: waits\n"


def test_a_terminal_leaves_notices_to_a_handler_that_shows_them(capsys, handled):
    handled(sys.stderr)
    terminal = progress.Terminal(sys.stdout, lambda: 200)
    assert not terminal.waiting(waiting(2)), "so it is said"
    terminal.say("job1: waits")
    assert tuple(capsys.readouterr()) == ("", "slotq INFO job1: waits\n")


def test_notices_below_the_shown_level_are_printed(capsys, handled):
    handled(sys.stderr, logging.WARNING)
    for say in (print_line, progress.Terminal(sys.stdout, lambda: 200).say):
        say("job1: waits")
        say(Trouble("no answer"))
        assert tuple(capsys.readouterr()) == ("job1: waits\n", "slotq WARNING no answer\n")


def test_a_rewritten_line_is_logged_at_each_change(caplog):
    caplog.set_level(logging.INFO)
    terminal = progress.Terminal(io.StringIO(), lambda: 200)
    notebook = progress.Notebook(print_line, lambda key, both: None)
    for shown in (terminal, notebook):
        caplog.clear()
        for job in (waiting(2), waiting(2), waiting(1)):
            assert shown.waiting(job)
        assert [record.message[:22] for record in caplog.records] == [
            "job1: waiting, place 2",
            "job1: waiting, place 1",
        ]


def test_failures_and_an_unavailable_queue_are_warnings(caplog):
    caplog.set_level(logging.INFO)
    clock, said = Clock(), []
    http = FakeHttp(FakeQueue())
    http.queue.script(running(), ended("failed", message="exit code 1"))
    away = [0, 5, 0]

    def fetch():
        http.troubles = [no_connection() for _ in range(away.pop(0))]
        return client_of(http).jobs.view("job1")

    def say(line):
        said.append(line)
        print_line(line)

    follow(fetch, say=say, clock=clock, sleep=clock.sleep)
    assert [record.levelname for record in caplog.records] == ["INFO", "WARNING", "WARNING"]
    assert [record.message for record in caplog.records] == said


def test_a_custom_say_replaces_printing_but_not_logging(caplog, capsys):
    caplog.set_level(logging.INFO)
    clock, said, queue = Clock(), [], FakeQueue(ended())
    job = QueuedJob(client_of(FakeHttp(queue)), waiting(1))
    job.wait(say=said.append, clock=clock, sleep=clock.sleep)
    assert said == [record.message for record in caplog.records]
    assert said == ["job1: completed after 1 attempt"]
    assert "completed" not in capsys.readouterr().out


def test_a_warning_without_a_handler_prints_nothing():
    code = "from slotq.jobs import notices; notices.log(notices.Trouble('no answer'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"", b"")
