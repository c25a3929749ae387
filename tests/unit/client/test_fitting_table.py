"""Tables on narrow terminals: columns leave, letters stay; and the lines of several pools."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from slotq.cli.app import App
from slotq.output.columns import COLUMNS, DEFAULT, lines_apart, queue_table
from slotq.output.fitting_table import FittingTable
from slotq.output.job_tables import attempts_table
from slotq.output.pool_tables import pools_table
from tests.unit.client.fake_queue import attempt, job_view, pool_view, running, waiting
from tests.work import counted_calls

WHY = "needs 1 slot; pool p5 has 0 free of 2, and no job there has a lower priority"


def shown(table, width, *, terminal=True):
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=terminal, color_system=None)
    console.print(table)
    return [line.rstrip() for line in out.getvalue().splitlines()]


JOBS = [running(name="train-resnet-50"), waiting(1, WHY, name="train-resnet-101")]


@pytest.mark.parametrize(
    ("width", "heads"),
    [
        (200, ["JOB", "STATE", "PRIORITY", "PLACE", "POOL", "SLOTS", "ENTERED", "(UTC)", "WHY"]),
        (90, ["JOB", "STATE", "PRIORITY", "PLACE", "POOL", "SLOTS", "WHY"]),
        (70, ["JOB", "STATE", "PLACE", "POOL", "WHY"]),
        (60, ["JOB", "STATE", "PLACE", "WHY"]),
        (50, ["JOB", "STATE", "WHY"]),
    ],
)
def test_the_least_important_columns_leave_first(width, heads):
    lines = shown(queue_table(JOBS), width)
    assert lines[0].split() == heads
    text = " ".join(" ".join(lines).split())
    assert "train-resnet-101" in text
    assert "…" not in text.replace("--wide …", "")
    assert all(len(line) <= width for line in lines)
    assert ("no room for" in text) == (width < 200)


@pytest.mark.parametrize(
    "table",
    [
        queue_table(JOBS),
        attempts_table([attempt(outcome="failed", message="out of memory in step 40")]),
        pools_table([pool_view("a-pool-with-a-name"), pool_view("eu", suspend_grace=60)]),
        pools_table([pool_view("without-any-column-that-may-be-missing")]),
    ],
)
@pytest.mark.parametrize("width", [30, 40, 60, 80])
def test_no_table_loses_letters(table, width):
    words = {word for line in shown(table, 1000) for word in line.split()}
    lines = shown(table, width)
    there = "".join("".join(lines).split())
    assert all(len(line) <= width for line in lines)
    assert "…" not in there.replace("--wide…", "")
    kept = {head for head in words if head.isupper() and head in there}
    assert kept


@pytest.mark.parametrize(
    ("cause", "ended", "said"),
    [
        ("evicted", "evicted", "evicted for june"),
        ("closed", "evicted", "evicted, as june closed"),
        ("closed", None, "stopping, as june closed"),
        ("closed", "completed", "completed"),
    ],
)
def test_a_history_says_for_whom_or_what_an_attempt_ended(cause, ended, said):
    ran = attempt(outcome=ended, stop_cause=cause, stopped_for="june")
    assert any(said in line for line in shown(attempts_table([ran]), 200))


MANY = [running(name="r"), *(waiting(n, WHY, name=f"job-{n}") for n in range(300))]


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("jobs", [JOBS, MANY, [waiting(1, "\u4e16\u754c e\u0301", name="wide")]])
def test_a_table_that_fits_looks_as_rich_draws_it(jobs, terminal):
    table = queue_table([*jobs, waiting(1, "x", name="apart", pools=["main", "eu"])])
    ends = {n for n, row in enumerate(table.rows[:-1]) if terminal and row.end_section}
    by_rich = table._only(table.columns, fold=False, gaps=ends)
    assert shown(table, 250, terminal=terminal) == shown(by_rich, 250, terminal=terminal)


def test_the_lines_of_a_table_that_fits_cost_little():
    """rich measures each cell thrice, and takes some hundred calls to draw one."""
    table = queue_table(MANY)
    cells = len(MANY) * len(table.columns)
    assert counted_calls(lambda: shown(table, 250)) < 120 * cells


def test_states_keep_their_colours():
    out = io.StringIO()
    console = Console(file=out, width=250, force_terminal=True, color_system="standard")
    console.print(queue_table(JOBS))
    head, first, _ = out.getvalue().splitlines()
    assert head.startswith("\x1b[1mJOB\x1b[0m")
    assert "\x1b[32mrunning\x1b[0m" in first


def test_what_leaves_is_named_in_the_order_of_the_table():
    lines = shown(queue_table(JOBS), 70)
    said = " ".join(line for line in lines if "no room" in line or "shows all" in line)
    assert said.startswith("(no room for PRIORITY, SLOTS, ENTERED (UTC): `slotq --wide …`")


def test_columns_that_are_asked_for_stay():
    lines = shown(queue_table(JOBS, ["name", "entered", "slots", "why"]), 60)
    assert lines[0].split()[:2] == ["JOB", "ENTERED"]


def test_every_default_column_but_two_may_leave():
    stay = [name for name in DEFAULT if COLUMNS[name].importance == 9]
    assert stay == ["name", "state", "why"]


def test_wide_and_a_pipe_keep_all_columns():
    assert App(wide=True).console().width > 1000
    assert len(shown(queue_table(JOBS), 1000, terminal=False)[0].split()) == 9


def test_the_lines_of_several_pools_stand_apart():
    jobs = [
        running(name="r"),
        waiting(1, name="m1", pools=["main"]),
        waiting(1, name="e1", pools=["eu"]),
        waiting(3, name="b1", pools=["main", "eu"]),
        waiting(3, name="m2", pools=["main"]),
        waiting(5, name="b2", pools=["eu", "main"]),
        job_view("held", "held"),
    ]
    lines = [[job.name for job in line] for line in lines_apart(jobs)]
    assert lines == [["r"], ["m1", "m2"], ["e1"], ["b1", "b2"], ["held"]]
    for line in lines_apart(jobs):
        places = [job.place for job in line if job.place is not None]
        assert places == sorted(set(places))
    terminal = shown(queue_table(jobs), 200)
    assert terminal.count("") == 4
    assert [line.split()[0] for line in terminal[1:] if line] == [n for line in lines for n in line]
    assert "" not in shown(queue_table(jobs), 200, terminal=False), "a program reads a job a line"


def test_one_line_stays_in_the_order_of_the_queue():
    jobs = [running(name="r"), waiting(1, name="a"), job_view("h", "held"), waiting(2, name="b")]
    assert lines_apart(jobs) == [jobs]
    assert lines_apart([]) == [[]]


def test_a_table_without_rows_and_columns_prints():
    assert shown(FittingTable(), 40) == [""]
