"""Turns amounts over time into curves: exact points if there are few changes, else means
over equal spans. So the picture of a year is no larger than that of an hour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from slotq.simulate.plot.palette import Palette

Numbers = NDArray[np.float64]
Steps = Sequence[tuple[int, int]]
"""Moments, each with the amount added at that moment."""

MOST_POINTS = 600
"""The most changes that a picture can show exactly."""
MEANS = 240
"""The number of means drawn if there are more changes."""


def grid(end: int, every: Sequence[Steps]) -> tuple[Numbers, float]:
    """The edges between which all curves are drawn, and the seconds over which each point is a
    mean. 0: points are exact."""
    moments = sorted({0, end, *(t for steps in every for t, _ in steps if 0 <= t <= end)})
    if len(moments) <= MOST_POINTS:
        return np.array(moments, dtype=float), 0
    return np.linspace(0, end, MEANS + 1), end / 1000 / MEANS


def levels(steps: Steps, edges: Numbers) -> Numbers:
    """The mean amount between each edge and the next."""
    if not steps or len(edges) < 2:
        return np.zeros(max(0, len(edges) - 1))
    ordered = sorted(steps)
    times = np.array([t for t, _ in ordered], dtype=float)
    amounts = np.cumsum([amount for _, amount in ordered]).astype(float)
    # The area below the curve up to each change, and from there up to each edge.
    area = np.concatenate([[0.0], np.cumsum(amounts[:-1] * np.diff(times))])
    place = np.searchsorted(times, edges, side="right") - 1
    inside = np.maximum(place, 0)
    upto = np.where(place < 0, 0.0, area[inside] + amounts[inside] * (edges - times[inside]))
    return np.diff(upto) / np.diff(edges)


def stacked(axes: Axes, by_group: Mapping[str, Steps], edges: Numbers, palette: Palette) -> Numbers:
    """Draw the groups' amounts on top of each other. Returns their sum."""
    below = np.zeros(len(edges) - 1)
    for group, steps in by_group.items():
        above = below + levels(steps, edges)
        axes.stairs(
            above, edges / 1000, baseline=below, fill=True, color=palette.colour(group), lw=0
        )
        below = above
    return below
