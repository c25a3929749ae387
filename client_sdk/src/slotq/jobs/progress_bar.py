"""The progress that a script reports: as a bar, as a cell, and in words.

A script is a stranger. Its texts are cut and lose what is not printable; its numbers may be
anything, even of another job.
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slotq_core.wire.views.jobs import ProgressView

BLOCKS, ASCII = "█░", "#."
"""Marks of what is done and what is left."""
LEAST_BAR, MOST_BAR = 6, 30
_MOST_METRICS = 4
_LONGEST = 20
"""The most characters of a metric's name, and of its value."""
_GAP = "  "


def marks(encoding: str | None) -> str:
    """The marks that an output of this encoding can show."""
    try:
        BLOCKS.encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return BLOCKS


def fraction(progress: ProgressView) -> float | None:
    """The part done, from 0 to 1; None if the script does not say how much there is."""
    step, of = progress.step, progress.of
    if step is None or of is None or of <= 0:
        return None
    return min(1.0, max(0.0, step / of))


def bar(progress: ProgressView, width: int, marks: str = BLOCKS) -> str:
    """A bar with percent, steps, time left and metrics, as much of it as `width` columns hold.
    Empty if the script has reported only saves."""
    done = fraction(progress)
    parts = [*_steps(progress), *_left(progress), *_metrics(progress)]
    if done is None:
        return _fitted("", parts, width)
    first = f"{_percent(done):>4}"
    text = _fitted(first, parts, width - LEAST_BAR - 1)
    cells = min(MOST_BAR, width - len(text) - 1)
    if cells < LEAST_BAR:
        return text[: max(0, width)]
    full = int(done * cells)
    return f"{marks[0] * full}{marks[1] * (cells - full)} {text}"


def short(progress: ProgressView, width: int) -> str:
    """The same without the bar: percent, steps, time left and metrics, as they fit."""
    done = fraction(progress)
    parts = [*_steps(progress), *_left(progress), *_metrics(progress)]
    return _fitted("" if done is None else _percent(done), parts, width)


def cell(progress: ProgressView | None) -> str:
    """The same for a table, short: `42 %, 1h05 left`, else the step."""
    if progress is None:
        return ""
    done = fraction(progress)
    parts = [*([_percent(done)] if done is not None else _steps(progress)), *_left(progress)]
    return ", ".join(parts)


def in_words(progress: ProgressView) -> str:
    """The same as a line of a log: `step 4,200 of 10,000 (42 %), 1h05 left, loss 0.12`."""
    done = fraction(progress)
    steps = [f"step {step}" for step in _steps(progress, " of ")]
    if done is not None:
        steps = [f"{steps[0]} ({_percent(done)})"]
    return ", ".join([*steps, *_left(progress), *_metrics(progress), *saved(progress)])


def saved(progress: ProgressView) -> list[str]:
    """The last checkpoint in words, if there is one: `saved step 4,000 in 12 s`."""
    last = progress.saved
    if last is None:
        return []
    step = f" step {last.step:,}" if last.step is not None else ""
    took = last.took_seconds
    known = took is not None and isfinite(took)
    return [f"saved{step}" + (f" in {_seconds(took)}" if known and took is not None else "")]


def duration(seconds: float) -> str:
    """A time in few characters: `45s`, `12m`, `3h05`, `2d04h`."""
    whole = int(seconds)
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if days:
        return f"{days}d{hours % 24:02}h"
    if hours:
        return f"{hours}h{minutes % 60:02}"
    return f"{minutes}m" if minutes else f"{whole}s"


def _seconds(took: float) -> str:
    return f"{took:.1f} s" if took < 10 else duration(took)


def _percent(done: float) -> str:
    """Rounded down: 100 % is the end, and nothing else."""
    return f"{int(100 * done)} %"


def _steps(progress: ProgressView, of: str = "/") -> list[str]:
    if progress.step is None:
        return []
    return [f"{progress.step:,}" + (f"{of}{progress.of:,}" if progress.of is not None else "")]


def _left(progress: ProgressView) -> list[str]:
    eta = progress.eta_seconds
    known = eta is not None and isfinite(eta) and eta >= 0
    return [f"{duration(eta)} left"] if known and eta is not None else []


def _metrics(progress: ProgressView) -> list[str]:
    shown = [*progress.metrics.items()][:_MOST_METRICS]
    return [f"{_plain(name)} {_value(value)}" for name, value in shown]


def _value(value: float | str) -> str:
    return f"{value:.4g}" if isinstance(value, float) else _plain(str(value))


def _plain(text: str) -> str:
    """A stranger's text without control characters, cut."""
    line = "".join(c if c.isprintable() else "?" for c in text)
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"


def _fitted(first: str, parts: list[str], width: int) -> str:
    """`first`, and the parts that still fit, the first ones first."""
    text = first
    for part in parts:
        longer = f"{text}{_GAP}{part}" if text else part
        if len(longer) > width:
            break
        text = longer
    return text
