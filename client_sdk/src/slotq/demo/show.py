"""The demo on the screen: each step with the queue as it then stands, the timeline, the checks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rich.console import Console, Group
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from slotq.cli.tables import COLORS, outcome, why
from slotq.demo.proof import Check
from slotq.demo.story import PARTS, TELLING, Part
from slotq_core.moments import from_iso
from slotq_core.wire import AttemptView, JobView

WIDTH = 60
"""Columns of the timeline's bars."""


class ConsoleScreen:
    """Prints; nothing is drawn over, so that a log reads as a terminal does."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def submits(self, at: float, part: Part) -> None:
        self._console.print()
        self._console.print(Rule(f"{part.name} is submitted with priority {part.priority}"))
        self._line(at, f"estimator.fit(wait=False)   {TELLING[part.name]}")

    def changed(self, at: float, before: JobView | None, now: JobView) -> None:
        came = f"{before.state} → {now.state}" if before else now.state
        note = f"  ({now.message})" if now.message else ""
        self._line(at, f"{now.name}  {came}{note}", COLORS.get(now.state, ""))

    def settled(self, at: float, jobs: list[JobView]) -> None:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
        for column in ("    job", "state", "priority", "place", "why"):
            table.add_column(column, no_wrap=column != "why")
        for job in jobs:
            state = Text(job.state, style=COLORS.get(job.state, ""))
            place = "" if job.place is None else str(job.place)
            table.add_row(f"    {job.name}", state, str(job.priority), place, why(job))
        self._console.print(table)

    def _line(self, at: float, text: str, style: str = "") -> None:
        self._console.print(Text(f"{at:5.1f} s  ", style="dim") + Text(text, style=style))


def timeline(jobs: Mapping[str, JobView]) -> Group:
    """Every job's attempts on one line of time, and the figures below it."""
    entries = {name: from_iso(job.entry_time) for name, job in jobs.items()}
    ends = [from_iso(a.ended_at) for job in jobs.values() for a in job.attempts if a.ended_at]
    begin, end = min(entries.values()), max(ends, default=min(entries.values()) + 1)
    scale = WIDTH / max(end - begin, 1)
    bars = Table.grid(padding=(0, 1))
    for part in PARTS:
        job = jobs[part.name]
        bars.add_row(job.name, f"priority {job.priority}", _bar(job, begin, scale))
    bars.add_row("", "", f"0 s{(end - begin) / 1000:>{WIDTH - 5}.1f} s")
    figures = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in ("attempt", "training job", "from", "to", "outcome"):
        figures.add_column(column, no_wrap=True)
    for name, job in jobs.items():
        for attempt in job.attempts:
            figures.add_row(
                f"{name} #{attempt.number}",
                attempt.training_job,
                *_span(attempt, begin),
                outcome(attempt),
            )
    return Group(bars, Text(""), figures)


def _bar(job: JobView, begin: int, scale: float) -> Text:
    """`·` waits, `█` runs, `▒` runs and is being evicted for another."""
    cells = [" "] * WIDTH
    _fill(cells, "·", from_iso(job.entry_time), from_iso(job.changed_at), begin, scale)
    for attempt in job.attempts:
        mark = "▒" if attempt.outcome == "evicted" else "█"
        since = from_iso(attempt.running_since or attempt.admitted_at)
        _fill(cells, mark, since, from_iso(attempt.ended_at or job.changed_at), begin, scale)
    return Text("".join(cells), style="green")


def _fill(cells: list[str], mark: str, since: int, until: int, begin: int, scale: float) -> None:
    first, last = round((since - begin) * scale), round((until - begin) * scale)
    for cell in range(max(first, 0), min(max(last, first + 1), WIDTH)):
        cells[cell] = mark


def _span(attempt: AttemptView, begin: int) -> tuple[str, str]:
    since = attempt.running_since or attempt.admitted_at
    until = attempt.ended_at
    seconds = [(from_iso(text) - begin) / 1000 if text else None for text in (since, until)]
    first, last = ("" if value is None else f"{value:5.1f} s" for value in seconds)
    return first, last


def verdict(checks: Iterable[Check]) -> Group:
    """Each check on a line, held or not."""
    return Group(
        *(
            Text("  ✔ " if check.held else "  ✘ ", style="green" if check.held else "bold red")
            + Text(check.text)
            for check in checks
        )
    )
