"""Formats lengths of time for people: a run may last seconds or a year."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

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
