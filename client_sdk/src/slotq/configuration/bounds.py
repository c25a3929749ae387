"""Numbers that a program hands over, refused where they are set and not where they would tell."""

from __future__ import annotations

import math

from slotq.errors import InvalidRequest

SHORTEST_POLL = 0.01
"""Seconds between two looks at the queue; less would be a load and no news."""


def whole(setting: str, value: object, low: int, high: int) -> int:
    """Raises InvalidRequest, which names the setting, for what is no whole number from `low` to
    `high`."""
    if type(value) is not int or not low <= value <= high:
        raise InvalidRequest(
            f"{setting} must be a whole number from {low:,} to {high:,}, not {value!r}",
            field=setting,
        )
    return value


def seconds(setting: str, value: object, *, least: float = 0.0) -> float:
    """Raises InvalidRequest for what is no number of seconds, from `least` up."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or value < least:  # type: ignore[arg-type, operator]
        raise InvalidRequest(
            f"{setting} must be a number of seconds from {least:g} up, not {value!r}", field=setting
        )
    return float(value)  # type: ignore[arg-type]
