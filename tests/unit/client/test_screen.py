"""Waiting as shown in a terminal, a notebook and a file."""

from __future__ import annotations

import io
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

from slotq.jobs import progress
from slotq.jobs.follow import follow
from slotq.jobs.rendering import JOB, bundle
from slotq_core.wire.views.jobs import OutlookView
from tests.unit.client.fake_queue import Clock, attempt, ended, running, waiting

EVICTED = [attempt(1, outcome="evicted", stop_cause="evicted", stopped_for="job4")]
WAITS = "waiting, place 2 in the line (1 ahead, since 2026-11-20 10:30 UTC): the pool is full"


def watched(shown, *answers):
    clock, script = Clock(), list(answers)
    follow(
        lambda: script.pop(0),
        say=shown.say,
        clock=clock,
        sleep=clock.sleep,
        waiting=shown.waiting,
    )


def rendered(text):
    """The lines of a terminal, each as last written."""
    return [line.split("\r\x1b[K")[-1] for line in text.split("\n")]


def test_a_terminal_rewrites_one_line_below_the_permanent_ones():
    out = io.StringIO()
    again = waiting(2, state="preempted", evictions=1, attempts_begun=1, attempts=EVICTED)
    watched(
        progress.Terminal(out, lambda: 200), waiting(2), waiting(2), waiting(1), running(),
        again, again, running(2, evictions=1), ended(number=2, evictions=1),
    )  # fmt: skip
    assert out.getvalue().count(f"job1: {WAITS}") == 2
    assert rendered(out.getvalue()) == [
        "job1: running in pool p5 (attempt 1: job1)",
        f"job1: was evicted for job4; now {WAITS}",
        "job1: running in pool p5 (attempt 2: job1-qstamp-2-abcdef)",
        "job1: completed after 2 attempts, evicted 1 time",
        "",
    ]


def test_a_line_fits_a_narrow_terminal():
    out = io.StringIO()
    progress.Terminal(out, lambda: 30).waiting(waiting(2, text="x" * 500))
    assert len(out.getvalue()) == 29


def test_a_notebook_updates_a_card():
    lines, shown = [], []
    notebook = progress.Notebook(lines.append, lambda key, both: shown.append((key, both)))
    watched(notebook, waiting(2, "1 < 2"), waiting(1), running(), ended())
    assert [key for key, _ in shown] == ["slotq-job1", "slotq-job1"]
    assert ": 1 &lt; 2</div>" in shown[0][1]["text/html"]
    assert "1 < 2" in shown[0][1]["text/plain"]
    assert lines[-1] == "job1: completed after 1 attempt"


def test_a_file_gets_lines(capsys):
    watched(progress.here(), waiting(2), running(), ended())
    assert capsys.readouterr().out.splitlines()[0] == f"job1: {WAITS}"


def test_a_notebook_kernel_is_recognised(monkeypatch):
    calls = []
    display: Any = ModuleType("IPython.display")
    display.display = lambda both, raw, display_id: calls.append(("display", display_id))
    display.update_display = lambda both, raw, display_id: calls.append(("update", display_id))
    ipython: Any = ModuleType("IPython")
    ipython.get_ipython = lambda: SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    shown = progress.here()
    assert isinstance(shown, progress.Notebook)
    shown.waiting(waiting(2))
    shown.waiting(waiting(1))
    assert calls == [("display", "slotq-job1"), ("update", "slotq-job1")]


def test_ipython_in_a_terminal_is_a_terminal(monkeypatch):
    ipython: Any = ModuleType("IPython")
    ipython.get_ipython = SimpleNamespace
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert isinstance(progress.here(), progress.Terminal)


def test_the_table_has_a_known_earliest_time():
    outlook = OutlookView(
        rooms=[], evictions=[], reserved=[], times=[], earliest="2026-11-20T10:45:30.000Z"
    )
    assert "<td>10:45 UTC</td>" in bundle(JOB, [waiting(2, outlook=outlook)])["text/html"]
    assert "<td></td>" in bundle(JOB, [waiting(2)])["text/html"]
