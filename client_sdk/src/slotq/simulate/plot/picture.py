"""Draws the whole picture and writes the file."""

from __future__ import annotations

from html import escape
from io import StringIO
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from slotq.simulate.plot.panels import (
    MOST_ROWS,
    WAITS,
    WAITS_AGAIN,
    draw_pool,
    draw_rows,
    draw_waiting,
)
from slotq.simulate.plot.scales import Palette, duration, time_axis
from slotq.simulate.run.metrics import holdings, horizon, metrics, spans
from slotq.simulate.run.record import Record
from slotq.simulate.scenario.scenario import Scenario

KINDS = (".html", ".png")


def save(path: Path, scenario: Scenario, record: Record, *, title: str) -> None:
    """Write the picture of a run. The suffix is one of `KINDS`. Raises OSError."""
    with mpl.rc_context(
        {
            "text.parse_math": False,  # A "$" in a name does not begin a formula.
            "svg.fonttype": "none",  # Text stays searchable text.
            "svg.hashsalt": "slotq",  # The same run gives the same file.
        }
    ):
        figure = _figure(scenario, record, title)
        if path.suffix == ".png":
            figure.savefig(path, dpi=150)
            return
        svg = StringIO()
        figure.savefig(svg, format="svg", metadata={"Date": None})
    path.write_text(_page(svg.getvalue(), title), encoding="utf-8")


def _figure(scenario: Scenario, record: Record, title: str) -> Figure:
    end = max(horizon(scenario, record), 1)
    few = len(scenario.jobs) <= MOST_ROWS
    heights = [1.6] * len(scenario.pools) + [0.6 + 0.2 * len(scenario.jobs) if few else 2.6]
    figure = Figure(figsize=(12, sum(heights) + 1.4), layout="constrained")
    every: list[Axes] = list(
        figure.subplots(
            len(heights), 1, sharex=True, squeeze=False, gridspec_kw={"height_ratios": heights}
        )[:, 0]
    )
    palette = Palette(scenario, record, end)
    by_pool, held = spans(scenario, record, end), list(holdings(scenario, record, end))
    for axes, name in zip(every, scenario.pool_names, strict=False):
        mine = [holding for holding in held if holding.pool == name]
        draw_pool(axes, name, by_pool[name], mine, palette)
    draw = draw_rows if few else draw_waiting
    draw(every[-1], scenario.jobs, record, palette, end)
    time_axis(every[-1], end)
    for axes in every:
        axes.grid(axis="x", color="#dddddd", lw=0.6)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(f"{title}\n{_summary(scenario, record)}", fontsize=11)
    handles = _legend(scenario, palette, few=few)
    figure.legend(handles=handles, loc="outside lower center", ncols=6, fontsize=8, frameon=False)
    return figure


def _summary(scenario: Scenario, record: Record) -> str:
    figures = metrics(scenario, record)
    return (
        f"utilisation {figures.utilisation:.1%}, waited {duration(figures.wait_mean)} on "
        f"average, {figures.evictions:,} evictions, {figures.slot_seconds_lost:,.10g} slot-seconds "
        "of work lost"
    )


def _legend(scenario: Scenario, palette: Palette, *, few: bool) -> list[Patch | Line2D]:
    handles: list[Patch | Line2D] = [
        Patch(color=palette.colour(group), label=palette.label(group)) for group in palette.groups
    ]
    handles.append(Line2D([], [], color="black", lw=1.2, label="capacity"))
    if any(pool.foreign or any(c.foreign for c in pool.changes) for pool in scenario.pools):
        handles.append(
            Patch(facecolor="none", edgecolor="#777777", hatch="////", label="foreign use")
        )
    if few:
        handles += [
            Line2D([], [], color=WAITS, lw=3, label="waits"),
            Line2D([], [], color=WAITS_AGAIN, lw=3, label="waits again, evicted"),
            Line2D([], [], color="black", marker="x", lw=0, label="evicted (then stopping: pale)"),
        ]
    return handles


def _page(svg: str, title: str) -> str:
    drawing = svg[svg.index("<svg") :].replace("<svg", '<svg role="img"', 1)
    return (
        "<!doctype html>\n"
        f'<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>\n'
        "<style>body{margin:1rem;font-family:sans-serif}svg{max-width:100%;height:auto}</style>\n"
        f"</head><body>\n{drawing}\n</body></html>\n"
    )
