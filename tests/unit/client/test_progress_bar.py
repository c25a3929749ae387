"""What scripts report, as people see it: bars, cells, lines, and warnings told once."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from slotq.jobs import progress as screens
from slotq.jobs.follow import PROGRESS_HEARTBEAT, follow
from slotq.jobs.progress_bar import ASCII, bar, cell, in_words, marks
from slotq.output.columns import in_order, queue_table
from slotq.output.job_tables import explanation, job_page
from slotq_core.wire.views.jobs import JobView, ProgressView
from tests.unit.client.fake_queue import MOMENT, Clock, ended, job_view, running

HOSTILE = "\x1b[2J\r\nloss\u202e" + "x" * 100


def reported(step: int | None = 4200, of: int | None = 10_000, **fields: Any) -> ProgressView:
    return ProgressView(step=step, of=of, at=MOMENT, **fields)


def at_step(step: int, **fields: Any) -> JobView:
    return running(progress=reported(step, eta_seconds=60.0), **fields)


@pytest.mark.parametrize(
    ("progress", "width", "shown"),
    [
        (reported(), 40, "████████░░░░░░░░░░░░░ 42 %  4,200/10,000"),
        (reported(eta_seconds=3900.0), 28, "███░░░░░░ 42 %  4,200/10,000"),
        (reported(eta_seconds=3900.0), 12, "██░░░░░ 42 %"),
        (reported(), 5, "42 %"),
        (reported(of=None, metrics={"loss": 0.12345}), 40, "4,200  loss 0.1235"),
        (reported(9_999), 20, "██████████████░ 99 %"),
        (reported(12_000), 20, "██████████████ 100 %"),
        (reported(-5), 12, "░░░░░░░  0 %"),
        (reported(of=0), 20, "4,200/0"),
        (reported(None, None), 20, ""),
    ],
)
def test_a_bar_holds_as_much_as_its_width(progress, width: int, shown: str):
    assert bar(progress, width) == shown


@pytest.mark.parametrize("width", range(1, 100))
def test_a_bar_never_outgrows_its_width(width: int):
    full = reported(eta_seconds=9e9, metrics={"loss": 1.5, "lr": 1e-5, "a": "b"})
    assert len(bar(full, width)) <= width


@pytest.mark.parametrize(
    ("progress", "shown"),
    [
        (None, ""),
        (reported(eta_seconds=3900.0), "42 %, 1h05 left"),
        (reported(of=None), "4,200"),
        (reported(eta_seconds=float("inf")), "42 %"),
        (reported(eta_seconds=-1.0), "42 %"),
        (reported(None, None), ""),
    ],
)
def test_a_cell_is_short(progress, shown: str):
    assert cell(progress) == shown


def test_a_log_gets_words():
    saved = {"step": 4000, "at": MOMENT, "took_seconds": 2.5}
    full = reported(eta_seconds=45.0, metrics={"loss": 0.5}, saved=saved)
    assert in_words(full) == (
        "step 4,200 of 10,000 (42 %), 45s left, loss 0.5, saved step 4,000 in 2.5 s"
    )


def test_a_strangers_text_is_cut_and_loses_control_characters():
    metrics = {HOSTILE: HOSTILE, "n": 10**15}
    for text in (bar(reported(metrics=metrics), 200), in_words(reported(metrics=metrics))):
        assert text.isprintable()
        assert len(text) < 150


def test_a_save_of_no_known_length_is_told_without_it():
    odd = reported(saved={"step": 1, "at": MOMENT, "took_seconds": float("inf")})
    assert in_words(odd).endswith("saved step 1")


def test_a_strangers_letters_do_not_stop_an_output_that_lacks_them():
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii", newline="")
    odd = running(progress=reported(metrics={"損失": "x" * 50}))
    assert screens.Terminal(out, lambda: 200).running(odd)


def test_an_output_without_blocks_gets_plain_marks():
    assert marks("ascii") == marks(None) == marks("no such") == ASCII
    assert bar(reported(), 12, marks("utf-8"))[0] == "█"
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    screens.Terminal(out, lambda: 40).running(at_step(5000))
    out.seek(0)
    assert "#" in out.read()


def followed(*answers: JobView, poll: float = 5.0, screen: Any = None) -> list[str]:
    clock, said, script = Clock(), list[str](), [*answers]
    shows = {"running": screen.running, "say": screen.say} if screen else {"say": said.append}
    follow(lambda: script.pop(0), clock=clock, sleep=clock.sleep, poll=poll, **shows)
    return said


def test_a_log_gets_a_line_now_and_then():
    steps = int(3 * PROGRESS_HEARTBEAT / 5)
    said = followed(*(at_step(n) for n in range(steps)), ended())
    lines = [line for line in said if "step" in line]
    assert lines[0] == "job1: step 1 of 10,000 (0 %), 1m left"
    assert len(lines) == 3


def test_a_terminal_has_one_line_below_the_permanent_ones():
    out = io.StringIO()
    terminal = screens.Terminal(out, lambda: 60)
    followed(at_step(100), at_step(200), at_step(9000), ended(), screen=terminal)
    lines = [line.split("\r\x1b[K")[-1] for line in out.getvalue().split("\n")]
    assert lines == [
        "job1: running in pool p5 (attempt 1: job1)",
        "job1: completed after 1 attempt",
        "",
    ]
    assert "90 %" in out.getvalue()
    drawn = [each.split("\n")[-1] for each in out.getvalue().split("\r\x1b[K")]
    assert max(map(len, drawn)) < 60


def test_a_narrow_terminal_keeps_the_percentage():
    out = io.StringIO()
    screens.Terminal(out, lambda: 24).running(at_step(5000, name="a-very-long-name-of-a-job"))
    assert "50 %" in out.getvalue()
    assert len(out.getvalue()) < 24


def test_a_notebook_updates_its_table():
    shown = list[dict[str, str]]()
    notebook = screens.Notebook(lambda _: None, lambda _, both: shown.append(both))
    followed(at_step(1), at_step(5000), ended(), screen=notebook)
    assert "50 %" in shown[-1]["text/html"]


def test_a_warning_is_told_once():
    warned = at_step(1, warnings=["it loses\x1b[2J all"])
    said = followed(warned, warned, at_step(2, warnings=["it loses\x1b[2J all", "more"]), ended())
    assert [line for line in said if "warning" in line] == [
        "job1: warning: it loses [2J all",
        "job1: warning: more",
    ]


def test_a_list_has_progress_and_classes_where_there_are_any():
    jobs = [
        job_view("plain"),
        job_view("named", priority_class="HIGH"),
        at_step(4200, name="far"),
        at_step(100, name="near"),
    ]
    text = drawn(queue_table(jobs))
    assert "PRIORITY CLASS" in text
    assert "42 %, 1m left" in text
    assert "PROGRESS" not in drawn(queue_table(jobs[:2]))
    assert "CLASS" not in drawn(queue_table(jobs[:1]))
    assert [job.name for job in in_order(jobs, "-progress")][:2] == ["far", "near"]
    assert [job.name for job in in_order(jobs, "progress")][:2] == ["near", "far"]


def test_one_job_is_shown_with_its_progress_and_warnings():
    job = running(
        progress=reported(metrics={HOSTILE: 1.0}, saved={"step": 4000, "at": MOMENT}),
        warnings=["an eviction sets it back"],
    )
    for text in (drawn(job_page(job)), explanation(job)):
        assert "42 %" in text
        assert "an eviction sets it back" in text
        assert "\x1b" not in text


def drawn(renderable: Any) -> str:
    console = Console(file=io.StringIO(), width=250, no_color=True)
    console.print(renderable)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]
