"""Shows the demo on the screen: each step with the state of the queue, the timeline, the checks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from slotq.demo.proof import ProofResult
from slotq.demo.story import EXPLANATIONS, StoryJob
from slotq.jobs.follow import place_text
from slotq.output.job_tables import COLORS, outcome, why
from slotq_core.timestamps import from_iso
from slotq_core.wire.views.jobs import JobView

WIDTH = 60
"""Columns of the timeline's bars."""


def heading(text: str) -> Text:
    """A line across the screen at the start of a part."""
    return Text(f"\n── {text} ".ljust(79, "─"), style="bold")


class ConsoleScreen:
    """Prints lines and never overwrites them, so a log reads like a terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def submits(self, at: float, part: StoryJob) -> None:
        self._console.print(heading(f"{part.name}, priority {part.priority}: fit(wait=False)"))
        self._line(at, EXPLANATIONS[part.name])

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
            table.add_row(f"    {job.name}", state, str(job.priority), place_text(job), why(job))
        self._console.print(table)

    def _line(self, at: float, text: str, style: str = "") -> None:
        self._console.print(Text.assemble((f"{at:5.1f} s  ", "dim"), (text, style)))


@dataclass(frozen=True, kw_only=True)
class Axis:
    """The time axis from the first submission to the last end (ms)."""

    begin: int
    end: int

    @classmethod
    def of(cls, jobs: Iterable[JobView]) -> Axis:
        begin = min(from_iso(job.entry_time) for job in jobs)
        return cls(begin=begin, end=max(from_iso(job.changed_at) for job in jobs))

    def seconds(self, moment: str | None) -> str:
        return f"{(from_iso(moment) - self.begin) / 1000:5.1f} s" if moment else ""

    def cells(self, since: str, until: str) -> range:
        """The columns between two moments. At least one."""
        scale = WIDTH / max(self.end - self.begin, 1)
        first, last = (round((from_iso(x) - self.begin) * scale) for x in (since, until))
        first = min(first, WIDTH - 1)
        return range(first, min(max(last, first + 1), WIDTH))


def timeline(jobs: Mapping[str, JobView]) -> Group:
    """Every job's attempts on one time axis, with the figures below."""
    axis = Axis.of(list(jobs.values()))
    bars = Table.grid(padding=(0, 1))
    for name, job in jobs.items():
        bars.add_row(f"{name}, priority {job.priority}", Text(_bar(job, axis), style="green"))
    total = f"{(axis.end - axis.begin) / 1000:.1f} s"
    bars.add_row("", f"0 s{total:>{WIDTH - 3}}")
    bars.add_row("", "· waits   ▒ runs, and is evicted   █ runs to its end")
    return Group(bars, Text(""), _figures(jobs, axis))


def _bar(job: JobView, axis: Axis) -> str:
    cells = [" "] * WIDTH
    spans = [("·", job.entry_time, job.changed_at)]
    for attempt in job.attempts:
        mark = "▒" if attempt.outcome == "evicted" else "█"
        since = attempt.running_since or attempt.admitted_at
        spans.append((mark, since, attempt.ended_at or job.changed_at))
    for mark, since, until in spans:
        for cell in axis.cells(since, until):
            cells[cell] = mark
    return "".join(cells)


def _figures(jobs: Mapping[str, JobView], axis: Axis) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in ("attempt", "training job", "from", "to", "outcome"):
        table.add_column(column, no_wrap=True)
    for name, job in jobs.items():
        for attempt in job.attempts:
            table.add_row(
                f"{name} #{attempt.number}",
                attempt.training_job,
                axis.seconds(attempt.running_since or attempt.admitted_at),
                axis.seconds(attempt.ended_at),
                outcome(attempt),
            )
    return table


def verdict(checks: Iterable[ProofResult]) -> Group:
    """Each check on one line, passed or failed."""
    return Group(
        *(
            Text.assemble(("  ✔ ", "green") if check.held else ("  ✘ ", "bold red"), check.text)
            for check in checks
        )
    )
