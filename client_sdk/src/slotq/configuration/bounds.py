"""Check numbers where a program sets them, before they are used."""

from __future__ import annotations

import math

from slotq.errors import InvalidRequest
from slotq_core.wire.pool_definition import CLASS_NAME
from slotq_core.wire.setting_tags import PRIORITY_LIMIT

SHORTEST_POLL = 0.01
"""Shortest interval in seconds between two requests for the state of a job."""


def whole(setting: str, value: object, low: int, high: int) -> int:
    """Return `value` if it is a whole number from `low` to `high`.

    Raises InvalidRequest with the name of the setting otherwise.
    """
    if type(value) is not int or not low <= value <= high:
        raise InvalidRequest(
            f"{setting} must be a whole number from {low:,} to {high:,}, not {value!r}",
            field=setting,
        )
    return value


def priority_in(setting: str, value: object) -> int | str:
    """Return `value` if it is a priority: a whole number, or the name of a class. Raises
    InvalidRequest with the name of the setting otherwise."""
    if isinstance(value, str) and CLASS_NAME.fullmatch(value):
        return value
    if isinstance(value, str):
        raise InvalidRequest(
            f"{setting} must be a whole number or the name of a class, not {value!r}", field=setting
        )
    return whole(setting, value, -PRIORITY_LIMIT, PRIORITY_LIMIT)


def seconds(setting: str, value: object, *, least: float = 0.0) -> float:
    """Return `value` if it is a number of seconds >= `least`; else raises InvalidRequest."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or value < least:  # type: ignore[arg-type, operator]
        raise InvalidRequest(
            f"{setting} must be a number of seconds, at least {least:g}, not {value!r}",
            field=setting,
        )
    return float(value)  # type: ignore[arg-type]
