"""Calendar days in UTC, as text such as `2026-11-20`. The texts sort as the days do."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from slotq_core.timestamps import from_iso, iso

DAY = 86_400_000
"""A day in ms."""


def day_of(moment: int) -> str:
    """The day that contains the moment (ms)."""
    return iso(moment)[:10]


@lru_cache(maxsize=1000)
def begin_of(day: str) -> int:
    """The first moment of the day (ms). Raises ValueError for anything but a day."""
    if len(day) != len("2026-11-20"):
        raise ValueError(f"{day!r} is not a day")
    return from_iso(f"{day}T00:00:00+00:00")


def is_day(text: str) -> bool:
    """Whether the text is a day from 1970 on."""
    try:
        return begin_of(text) >= 0
    except ValueError:
        return False


def end_of(day: str) -> int:
    """The first moment after the day (ms)."""
    return begin_of(day) + DAY


def next_day(day: str) -> str:
    return day_of(end_of(day))


def days(first: str, last: str) -> Iterator[str]:
    """The days from `first` to `last`, both included."""
    for begin in range(begin_of(first), end_of(last), DAY):
        yield day_of(begin)


def month_of(moment: int) -> int:
    """The first moment (ms) of the month that contains the moment."""
    return begin_of(f"{day_of(moment)[:7]}-01")


def next_month(moment: int) -> int:
    """The first moment (ms) after the month that contains the moment."""
    return month_of(month_of(moment) + 31 * DAY)


def is_midnight(moment: int) -> bool:
    return moment % DAY == 0
