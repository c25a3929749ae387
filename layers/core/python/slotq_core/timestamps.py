"""Moments and durations: whole milliseconds in the core, text and seconds outside.

A moment's text is in UTC, ISO 8601, with milliseconds, always of 24 characters. The texts sort as
the moments do; the store's sort keys rely on this.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

Moment = int
"""Milliseconds since the epoch. A field of this type is stored and shown as a time."""

Duration = int
"""Milliseconds. A field of this type is stored and shown as a duration."""

FAR_OFF = 3_600_000
"""Milliseconds. A moment this much later than any that would be set now comes from a wrong clock
and is ignored."""

UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
"""Seconds in the units that people write."""
WITH_UNITS = r"([0-9]{1,10}(\.[0-9]{1,3})?[smhdw])+"
"""A duration as people write it: `90s`, `30m`, `1.5h`, `1h30m`, `2d`, `1w`."""
_PART = re.compile(r"(?P<number>[0-9.]+)(?P<unit>[smhdw])")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def iso(moment: int) -> str:
    """`2026-11-20T10:30:00.000Z` for milliseconds since the epoch."""
    stamp = to_datetime(moment)
    return stamp.strftime("%Y-%m-%dT%H:%M:%S.") + f"{stamp.microsecond // 1000:03d}Z"


def iso_or_none(moment: int | None) -> str | None:
    return None if moment is None else iso(moment)


def from_iso(text: str) -> int:
    """Milliseconds since the epoch for what `iso` wrote, or any ISO 8601 moment with an offset."""
    return from_datetime(datetime.fromisoformat(text))


def to_datetime(moment: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=moment)


def from_datetime(stamp: datetime) -> int:
    return (stamp - _EPOCH) // timedelta(milliseconds=1)


def wall_clock(moment: int, zone: str) -> str:
    """A moment as people in a time zone read it: `20:00 Europe/Berlin, 28 Nov`."""
    from zoneinfo import ZoneInfo  # Few queues have such moments.

    wall = to_datetime(moment).astimezone(ZoneInfo(zone))
    return f"{wall:%H:%M} {zone}, {wall.day} {wall:%b}"


def zoned(moment: int, zone: str) -> str:
    """The same with its date, to the minute: `2026-12-01 20:00 Europe/Berlin`."""
    from zoneinfo import ZoneInfo

    return f"{to_datetime(moment).astimezone(ZoneInfo(zone)):%Y-%m-%d %H:%M} {zone}"


def seconds_in(text: str) -> float | None:
    """The seconds in a duration with units, an int if whole; None for any other text."""
    if re.fullmatch(WITH_UNITS, text, re.ASCII) is None:
        return None
    parts = _PART.finditer(text)
    # Each number as whole thousandths: 1.1 hours are 3960 seconds, and as floats a little more.
    return seconds(sum(milliseconds(float(part["number"])) * UNITS[part["unit"]] for part in parts))


def seconds(duration: int) -> float:
    """A duration (ms) in seconds; an int if whole."""
    return duration // 1000 if duration % 1000 == 0 else duration / 1000


def milliseconds(duration: float) -> int:
    """A duration in seconds as milliseconds, rounded."""
    return round(duration * 1000)


def lasting(duration: int) -> str:
    """A duration (ms) for people, in its largest unit and rounded down: `3 s`, `41 min`, `5 h`, `2
    days`."""
    whole = max(0, duration) // 1000
    for unit, length in (("days", 86_400), ("h", 3_600), ("min", 60)):
        if whole >= 2 * length:
            return f"{whole // length} {unit}"
    return f"{whole} s"
