"""Draws a pool over time: slots used and by whom, slots free, and capacity."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from slotq.simulate.plot.curves import Steps, grid, levels, stacked
from slotq.simulate.plot.palette import Palette
from slotq.simulate.plot.times import means_over
from slotq.simulate.run.timeline import Held, Span
from slotq_core.model.pools import PoolState

_SHADES = {PoolState.PAUSED: "#c9a400", PoolState.DRAINED: "#b03030"}


def draw_pool(
    axes: Axes, name: str, spans: Sequence[Span], held: Sequence[Held], palette: Palette
) -> None:
    """Draw slots used, stacked by colour, below the line of the capacity. White is free."""
    end = spans[-1].until if spans else 1
    by_group: dict[str, list[tuple[int, int]]] = {group: [] for group in palette.groups}
    for each in held:
        slots = each.slots
        by_group[palette.group(each.job)] += [(each.since, slots), (each.until, -slots)]
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
