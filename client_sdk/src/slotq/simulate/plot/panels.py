"""The panels of a picture: each pool over time, with slots used, by whom, and free; and the jobs.

Jobs have one row each if there are few. Else the panel shows the number that wait.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from slotq.simulate.plot.scales import Palette, Steps, grid, levels, means_over, stacked
from slotq.simulate.run.metrics import Held, Span
from slotq.simulate.run.record import REFUSED, Record, Run
from slotq.simulate.scenario.sections import JobSpec
from slotq_core.model.pools import PoolState

_SHADES = {PoolState.PAUSED: "#c9a400", PoolState.DRAINED: "#b03030"}


def draw_pool(
    axes: Axes, name: str, spans: Sequence[Span], held: Sequence[Held], palette: Palette
) -> None:
    """Draw slots used, stacked by colour, below the line of the capacity. White is free."""
    end = spans[-1].until if spans else 1
    by_group: dict[str, list[tuple[int, float]]] = {group: [] for group in palette.groups}
    for holding in held:
        slots = holding.slots
        by_group[palette.group(holding.job)] += [(holding.since, slots), (holding.until, -slots)]
    capacity, foreign = _changes(spans, "capacity"), _changes(spans, "foreign")
    edges, means = grid(end, [*by_group.values(), capacity, foreign])
    below = stacked(axes, by_group, edges, palette)
    size, others = levels(capacity, edges), levels(foreign, edges)
    if others.any():
        axes.stairs(
            size, edges / 1000, baseline=size - others, fill=True, facecolor="none",
            edgecolor="#777777", hatch="////", lw=0,
        )  # fmt: skip
    axes.stairs(size, edges / 1000, baseline=None, color="black", lw=1.2)
    _shade(axes, spans)
    axes.set_ylim(0, 1.15 * max(size.max(initial=1), below.max(initial=1)))
    axes.yaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    axes.set_ylabel("slots")
    axes.set_title(f"pool {name}{means_over(means)}", loc="left", fontsize=10)


def _changes(spans: Sequence[Span], what: str) -> Steps:
    """A field of the spans as steps."""
    steps, before = [], 0
    for span in spans:
        if (level := getattr(span, what)) != before:
            steps.append((span.since, level - before))
            before = level
    return steps


def _shade(axes: Axes, spans: Sequence[Span]) -> None:
    before = PoolState.ACTIVE
    for span in spans:
        if shade := _SHADES.get(span.state):
            axes.axvspan(
                span.since / 1000, span.until / 1000, color=shade, alpha=0.12, lw=0, zorder=0
            )
            if span.state is not before:
                axes.annotate(
                    f" {span.state}",
                    (span.since / 1000, 1),
                    xycoords=("data", "axes fraction"),
                    va="top",
                    fontsize=8,
                    color=shade,
                )
        before = span.state


MOST_ROWS = 80
"""More rows than this cannot be read."""

_LEGIBLE = 0.007
"""The fraction of the time axis that a letter needs."""

WAITS = "#b8b8b8"
WAITS_AGAIN = "#505050"
_WAITING = {"pending": WAITS, "backoff": WAITS, "preempted": WAITS_AGAIN}


def draw_rows(
    axes: Axes, jobs: Sequence[JobSpec], record: Record, palette: Palette, end: int
) -> None:
    """Draw one row per job, the first submitted on top, with a bar for each attempt."""
    runs: dict[str, list[Run]] = {}
    for run in record.runs:
        runs.setdefault(run.job, []).append(run)
    several = len({run.pool for run in record.runs}) > 1 or any(job.parts for job in jobs)
    for row, job in enumerate(jobs):
        for state, since, until in _intervals(record, job.name, end):
            if colour := _WAITING.get(state):
                axes.broken_barh(
                    [(since / 1000, (until - since) / 1000)], (row - 0.1, 0.2), color=colour, lw=0
                )
        for run in runs.get(job.name, ()):
            _attempt(axes, row, run, palette.colour(palette.group(job)), end)
            if several:
                _name(axes, row, run, "+".join(job.held_in(run.pool)), end)
        evicted = [t / 1000 for t in record.evicted(job.name)]
        axes.plot(evicted, [row] * len(evicted), marker="x", color="black", ms=5, mew=1.3, lw=0)
        if record.states[job.name][-1:] and record.states[job.name][-1][1] == REFUSED:
            at = max(0, record.states[job.name][-1][0])
            axes.text(at / 1000, row, " refused", va="center", fontsize=7, color="#b03030")
    axes.set_yticks(range(len(jobs)), [job.name for job in jobs], fontsize=7)
    axes.set_ylim(len(jobs) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.set_title("jobs: a bar for each attempt", loc="left", fontsize=10)


def draw_waiting(
    axes: Axes, jobs: Sequence[JobSpec], record: Record, palette: Palette, end: int
) -> None:
    """Draw the number of waiting jobs, stacked by colour, with a tick below for each eviction."""
    by_group: dict[str, list[tuple[int, int]]] = {group: [] for group in palette.groups}
    for job in jobs:
        steps = by_group[palette.group(job)]
        for state, since, until in _intervals(record, job.name, end):
            if state in _WAITING:
                steps += [(since, 1), (until, -1)]
    edges, means = grid(end, list(by_group.values()))
    below = stacked(axes, by_group, edges, palette)
    top = max(1.0, 1.08 * below.max(initial=1))
    evicted = sorted({t for job in jobs for t in record.evicted(job.name)})
    if evicted:
        axes.vlines(np.array(evicted) / 1000, -0.08 * top, -0.02 * top, color="black", lw=0.5)
    axes.set_ylim(-0.1 * top if evicted else 0, top)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    axes.set_ylabel("jobs")
    axes.set_title(
        f"number of waiting jobs, of {len(jobs):,}{means_over(means)}; up to {MOST_ROWS} jobs "
        f"have a row each{'; ticks: evictions' if evicted else ''}",
        loc="left",
        fontsize=10,
    )


def _attempt(axes: Axes, row: int, run: Run, colour: str, end: int) -> None:
    since, until = _within(run, end)
    stopping = until if run.stopping is None else min(run.stopping, until)
    axes.broken_barh(
        [(since / 1000, (stopping - since) / 1000)], (row - 0.35, 0.7), color=colour, lw=0
    )
    axes.broken_barh(
        [(stopping / 1000, (until - stopping) / 1000)],
        (row - 0.35, 0.7),
        color=colour,
        alpha=0.4,
        lw=0,
    )


def _name(axes: Axes, row: int, run: Run, pools: str, end: int) -> None:
    """Write the run's pools into the bar, if there is room."""
    since, until = _within(run, end)
    if until - since > _LEGIBLE * len(pools) * end:
        axes.text(since / 1000, row, f" {pools}", va="center", fontsize=6, color="white")


def _within(run: Run, end: int) -> tuple[int, int]:
    """The part of a run that the picture shows."""
    return max(0, run.since), end if run.until is None else min(run.until, end)


def _intervals(record: Record, name: str, end: int) -> Iterator[tuple[str, int, int]]:
    """The job's states, each with its start and end."""
    for (since, state), (until, _) in pairwise([*record.states.get(name, ()), (end, "")]):
        if min(until, end) > since:
            yield state, since, min(until, end)
