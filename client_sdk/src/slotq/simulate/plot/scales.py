"""What the panels of a picture share: curves of amounts, colours of groups, and the axis of time.

Curves have exact points if there are few changes, else means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter
from numpy.typing import NDArray

from slotq.simulate.run.metrics import holdings
from slotq.simulate.run.record import Record
from slotq.simulate.scenario.scenario import Scenario
from slotq.simulate.scenario.sections import JobSpec

Numbers = NDArray[np.float64]
Steps = Sequence[tuple[int, float]]
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


_COLOURS = [mpl.colors.to_hex(mpl.colormaps["tab10"](n)) for n in (0, 1, 2, 3, 4, 5, 6, 8, 9)]
"""The colours of tab10 without its grey."""
OTHERS = "others"
"""The name of all groups beyond these colours."""
_GREY = "#b0b0b0"


class Palette:
    """The groups of a run, each with a colour: those that held most, projects by slots held,
    priorities highest first."""

    def __init__(self, scenario: Scenario, record: Record, end: int) -> None:
        self._scenario = scenario
        self.by_project = bool(scenario.projects)
        held: dict[str, float] = {self._own(spec): 0 for spec in scenario.jobs}
        for holding in holdings(scenario, record, end):
            held[self._own(holding.job)] += holding.slots * (holding.until - holding.since)
        most = sorted(held, key=held.__getitem__, reverse=True)
        kept = most[: len(_COLOURS)]
        if not self.by_project:
            kept.sort(key=int, reverse=True)
        self.groups = [*kept, *([OTHERS] if len(kept) < len(most) else [])]
        self._colours = {name: self._colour(place, len(kept)) for place, name in enumerate(kept)}

    def group(self, job: JobSpec) -> str:
        own = self._own(job)
        return own if own in self._colours else OTHERS

    def colour(self, group: str) -> str:
        return self._colours.get(group, _GREY)

    def label(self, group: str) -> str:
        if group == OTHERS:
            return OTHERS
        return f"{'project' if self.by_project else 'priority'} {group}"

    def _own(self, job: JobSpec) -> str:
        return job.project or "" if self.by_project else str(self._scenario.priority_of(job))

    def _colour(self, place: int, count: int) -> str:
        if self.by_project:
            return _COLOURS[place]
        shade = 0.5 if count == 1 else 0.15 + 0.7 * place / (count - 1)
        return str(mpl.colors.to_hex(mpl.colormaps["plasma"](shade)))


_UNITS = ((172_800, 86_400, "days"), (7_200, 3_600, "hours"), (600, 60, "minutes"))
"""The least seconds for a unit, the unit's seconds, and the unit's name."""


def duration(seconds: float) -> str:
    unit, name = _unit(seconds)
    return f"{seconds / unit:.3g} {name}"


def means_over(seconds: float) -> str:
    """The title's words for the length of each mean. 0: points are exact."""
    return f" (means over {duration(seconds)})" if seconds else ""


def time_axis(axes: Axes, end: int) -> None:
    """Draw the axis from 0 to the end (ms), in the unit that fits, with round steps."""
    seconds = end / 1000
    unit, name = _unit(seconds)
    step = _step(seconds / unit)
    axes.set_xlim(0, seconds)
    axes.set_xticks([n * step * unit for n in range(int(seconds / unit / step) + 1)])
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x / unit:g}"))
    axes.set_xlabel(name)


def _unit(seconds: float) -> tuple[int, str]:
    return next(((unit, name) for least, unit, name in _UNITS if seconds >= least), (1, "seconds"))


def _step(length: float) -> float:
    """A round step for at most 12 ticks."""
    step = 0.001
    while True:
        for factor in (1, 2, 5):
            if length <= 12 * step * factor:
                return step * factor
        step *= 10
