"""`slotq timeline`: pages, and a drawing that fits and names both sides of each eviction."""

from __future__ import annotations

import io
import json
import re
from typing import Any

import pytest
from rich.console import Console

from slotq.cli.exits import ExitCode
from slotq.output.timeline_text import LEAST_WIDTH, ROWS, timeline_text
from slotq_core.wire.views.usage import AttemptsPageView, EvictionView, HeldSlotsView
from tests.unit.client.fake_queue import client_of

ADA, BOB = (f"arn:aws:iam::123456789012:user/{name}" for name in ("ada", "bob"))
URGENT = EvictionView(
    job="urgent", project="speech", submitter=BOB, lost_since="2026-11-20T02:00:00.000Z"
)


def attempt(job: str = "job1", begin: str = "00:00", end: str | None = "12:00", **fields: Any):
    known: dict[str, Any] = {
        "number": 1,
        "project": "vision",
        "submitter": ADA,
        "workload": "training",
        "pool": "p5",
        "instance_type": "ml.p5.48xlarge",
        "slots": 1,
        "admitted_at": moment(begin),
        "running_since": moment(begin),
        "ended_at": moment(end) if end else None,
        "outcome": "completed" if end else None,
    }
    return HeldSlotsView(job=job, **(known | fields))


def moment(time: str) -> str:
    return f"2026-11-20T{time}:00.000Z"


def page(*attempts: HeldSlotsView, **fields: Any) -> AttemptsPageView:
    known = {"start": moment("00:00"), "end": "2026-11-21T00:00:00.000Z"}
    return AttemptsPageView(attempts=[*attempts], **(known | {"as_of": known["end"]} | fields))


def drawn(view: AttemptsPageView, width: int = 80) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width, highlight=False).print(timeline_text(view, width))
    return out.getvalue().splitlines()


def row(lines: list[str], name: str) -> str:
    return next(line for line in lines if line.startswith(f"{name} "))


def test_a_job_over_several_pools_is_drawn_in_each():
    lines = drawn(page(attempt("wide", pool="main", parts={"main": 1, "small": 2})))
    assert {"main  1 attempt", "small  1 attempt"} <= {line.rstrip() for line in lines}
    assert len([line for line in lines if line.startswith("wide ")]) == 2


def test_a_job_on_a_node_is_drawn_with_its_gpus():
    lines = drawn(page(attempt("trial", part_of_slot=[2, 8]), attempt("whole")))
    assert row(lines, "trial 2/8").startswith("trial 2/8 █")
    assert row(lines, "whole").startswith("whole     █")
    assert lines[1].rstrip().endswith("1/8 one of a node's 8 GPUs")
    assert "GPUs" not in drawn(page(attempt("whole")))[1]


def test_spot_and_warm_time_are_told_from_the_rest():
    kept = attempt("kept", "12:00", "18:00", kind="warm", outcome="warm")
    lines = drawn(page(attempt("kept", "00:00", "12:00"), kept, attempt("cheap", kind="spot")), 70)
    assert set(row(lines, "cheap").removeprefix("cheap").strip()) == {"▓"}
    assert re.fullmatch(r"kept  █+▌?▒+", row(lines, "kept").rstrip())
    assert lines[1].rstrip() == "░ starts  █ runs  ▓ runs on spot  ▒ stays warm  ✗ is evicted"
    assert "spot" not in drawn(page(attempt("kept")))[1]


def test_pages_are_one_drawing(slotq, queue):
    queue.attempts = [
        page(attempt("one"), next="2026-11-20~1~x~1", gone=2),
        page(attempt("two", "13:00", None), gone=1),
    ]
    found = json.loads(slotq("timeline", "--json", "--since", "2026-11-20", "--pool", "p5").stdout)
    assert [each["job"] for each in found["attempts"]] == ["one", "two"]
    assert (found["gone"], found["next"]) == (3, None)
    first, second = queue.attempt_queries
    assert first == {"from": ["2026-11-20T00:00:00+00:00"], "pool": ["p5"]}
    assert second == {
        "from": [moment("00:00")],
        "to": ["2026-11-21T00:00:00.000Z"],
        "pool": ["p5"],
        "next": ["2026-11-20~1~x~1"],
    }


def test_an_eviction_is_a_mark_and_a_sentence(slotq, queue):
    queue.attempts = [
        page(attempt("job1", outcome="evicted", evicted=URGENT), attempt("urgent", "12:00", None))
    ]
    result = slotq("timeline")
    assert result.exit_code == ExitCode.OK, result.output
    lines = result.stdout.splitlines()
    assert row(lines, "job1").endswith("█✗")
    assert (
        "2026-11-20 12:00:00 ✗ job1 (ada, vision) evicted from p5 for urgent (bob, speech)" in lines
    )


def test_bars_stand_where_the_time_is():
    lines = drawn(page(attempt("a", "00:00", "12:00"), attempt("b", "12:00", None)), 66)
    first, second = row(lines, "a"), row(lines, "b")
    assert first[2:] == "█" * 32 + "▌"
    assert second[2:] == " " * 32 + "█" * 32
    axis = next(line for line in lines if "|00:00" in line)
    assert axis.index("|12:00") == 2 + 32


def test_a_start_is_told_from_a_run():
    lines = drawn(page(attempt("a", running_since=moment("06:00"))), 66)
    assert row(lines, "a")[2:] == "░" * 16 + "█" * 16 + "▌"
    lines = drawn(page(attempt("a", running_since=None)), 66)
    assert set(row(lines, "a")[2:]) == {"░"}


@pytest.mark.parametrize("width", [1, LEAST_WIDTH, 80, 200])
def test_no_line_is_wider_than_the_terminal(width: int):
    names = ["x" * 63, "short", *(f"job{n}" for n in range(ROWS + 3))]
    lines = drawn(page(*(attempt(name, "01:00", "01:01") for name in names)), max(width, 40))
    assert max(map(len, lines)) <= max(width, LEAST_WIDTH)
    assert "and 5 jobs more (--json has all)" in lines


@pytest.mark.parametrize("year", [2001, 2020, 2025, 2026])
@pytest.mark.parametrize("width", [40, 80, 200])
def test_the_moments_of_the_axis_do_not_overlap(year: int, width: int):
    axis = drawn(page(attempt(), start=f"{year}-01-01T00:00:00.000Z"), width)[2]
    dates = axis.split()
    assert dates
    assert all(re.fullmatch(r"\|[0-9]{2}-[0-9]{2}", date) for date in dates), axis


@pytest.mark.parametrize(
    ("evicted", "words"),
    [
        (EvictionView(lost_since="x"), "job1 (ada, vision) evicted from p5, for no particular job"),
        (
            EvictionView(project="speech", lost_since="x"),
            "job1 (ada, vision) evicted from p5 for a job of others (speech)",
        ),
    ],
)
def test_what_is_not_known_is_not_named(evicted: EvictionView, words: str):
    lines = drawn(page(attempt(outcome="evicted", evicted=evicted)), 120)
    assert any(line.endswith(words) for line in lines)


def test_jobs_of_others_have_no_names():
    lines = drawn(page(attempt("", submitter="", outcome=None)))
    assert row(lines, "(others)")


def test_what_is_missing_is_said(slotq, queue):
    queue.attempts = [page(gone=3, unreadable=2)]
    said = slotq("timeline").stdout
    assert "No attempt held slots in this window." in said
    assert "3 attempts ended then or later" in said
    assert "2 records cannot be read" in said


def test_the_client_asks_for_the_last_day_by_default(queue, http):
    queue.attempts = [page()]
    assert client_of(http).usage.attempts().attempts == []
    assert queue.attempt_queries == [{}]
