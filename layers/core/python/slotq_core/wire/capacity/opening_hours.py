"""Opening hours: windows of days and times in a time zone, and the moments that follow from them.

A window is written as `{days: [mon, tue], from: "20:00", to: "08:00", zone: Europe/Berlin}` or as
the text `mon,tue 20:00-08:00 Europe/Berlin`, which is also how a pool keeps it. A window whose end
is not later than its begin goes on over midnight, and belongs to the day on which it begins;
`24:00` is the end of a day.

Times are those that a clock on the wall shows. A time that a change of the clocks skips is the
moment an hour later, and a time that comes twice is the first of the two. A window that has no
length on such a day is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from slotq_core.errors import InvalidRequest
from slotq_core.model.capacity.schedule import Schedule, SizeCause, SizeChange
from slotq_core.timestamps import from_datetime, to_datetime, wall_clock

MOST = 28
"""The most windows of a pool."""

AHEAD = 35
"""How many days ahead the moments are known: more than any attempt runs."""

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_DAY = 1_440
"""Minutes."""
_KEYS = ("days", "from", "to", "zone")
_TIME = re.compile(r"(?P<hour>[01]?[0-9]|2[0-4]):(?P<minute>[0-5][0-9])")
_TEXT = re.compile(r"(?P<days>\S+) +(?P<from>[0-9:]+) *- *(?P<to>[0-9:]+) +(?P<zone>\S+)")
_FORM = (
    "windows such as {days: [mon, tue], from: '20:00', to: '08:00', zone: Europe/Berlin}, or texts "
    "such as 'mon-fri 20:00-08:00 Europe/Berlin'"
)
_A_YEAR = (datetime(2027, 1, 1, tzinfo=UTC), 372)
"""The days for which windows are compared: all changes of the clocks are among them."""


class Window(NamedTuple):
    """One window."""

    days: tuple[int, ...]
    """The days on which it begins, 0 to 6 from Monday on, in this order."""
    begins: int
    """Minutes of the day, below a day's 1,440."""
    ends: int
    """Minutes of the day, up to 1,440; not later than the begin: of the next day."""
    zone: str

    def __str__(self) -> str:
        begin, end = _written(self.begins), _written(self.ends)
        return f"{_days_written(self.days)} {begin}-{end} {self.zone}"

    @property
    def lasts(self) -> int:
        """Minutes, unless the clocks change."""
        return (
            self.ends - self.begins if self.ends > self.begins else self.ends + _DAY - self.begins
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "days": [DAYS[day] for day in self.days],
            "from": _written(self.begins),
            "to": _written(self.ends),
            "zone": self.zone,
        }


def defined(pool: str, value: object) -> tuple[str, ...]:
    """The windows of a pool, as it keeps them: in the order of the week. None, "none" and an empty
    list are none.

    Raises InvalidRequest for windows that overlap, name no zone or an unknown one, or end when they
    begin.
    """
    if value in (None, "", "none"):
        return ()
    if isinstance(value, str):
        value = value.split("+")
    if isinstance(value, Mapping) or not isinstance(value, Iterable):
        raise _wrong(pool, f"must be {_FORM}, not {value!r}")
    found = sorted({_window(pool, entry) for entry in value})
    if len(found) > MOST:
        raise _wrong(pool, f"are at most {MOST}, not {len(found)}")
    _check_overlaps(pool, found)
    return tuple(map(str, found))


def read(text: str) -> Window:
    """A window as a pool keeps it. Raises ValueError for any other text."""
    try:
        return _window("", text)
    except InvalidRequest as error:
        raise ValueError(str(error)) from None


def schedule(windows: tuple[str, ...], now: int, *, grace: int = 0) -> Schedule:
    """The moments at which a pool with these windows opens and closes: the last before `now` (ms),
    and those of the next `AHEAD` days. `grace` (ms): how long before a window's end jobs that save
    are asked to suspend; a window that is not longer does not open."""
    return _of_day(windows, now // 86_400_000, grace)


@lru_cache(maxsize=64)
def _of_day(windows: tuple[str, ...], day: int, grace: int) -> Schedule:
    read_windows = [read(text) for text in windows]
    zone = read_windows[0].zone
    begin = to_datetime(day * 86_400_000)
    changes = []
    for opens, closes in _merged(_moments(read_windows, begin - timedelta(days=9), AHEAD + 10)):
        if closes - grace <= opens:
            continue
        changes.append(SizeChange(at=opens, said=wall_clock(opens, zone)))
        changes.append(
            SizeChange(
                at=closes - grace,
                slots=0,
                cause=SizeCause.WINDOW,
                grace=grace,
                said=wall_clock(closes, zone),
            )
        )
    if not changes or changes[0].at > day * 86_400_000:
        changes.insert(0, SizeChange(at=0, slots=0, cause=SizeCause.WINDOW))
    return tuple(changes)


def _moments(windows: Iterable[Window], begin: datetime, days: int) -> list[tuple[int, int]]:
    """Each opening with its end (ms), from the day of `begin` on."""
    found = []
    for window in windows:
        zone = ZoneInfo(window.zone)
        for number in range(days):
            on = (begin + timedelta(days=number)).date()
            if on.weekday() not in window.days:
                continue
            opens = _moment(on, window.begins, zone)
            closes = _moment(on, window.begins + window.lasts, zone)
            if opens < closes:
                found.append((opens, closes))
    return sorted(found)


def _moment(on: date, minutes: int, zone: ZoneInfo) -> int:
    day, minute = divmod(minutes, _DAY)
    wall = datetime.combine(on + timedelta(days=day), datetime.min.time(), tzinfo=zone)
    return from_datetime(wall.replace(hour=minute // 60, minute=minute % 60))


def _merged(moments: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The moments without the ends at which another window begins."""
    found: list[tuple[int, int]] = []
    for opens, closes in moments:
        if found and opens <= found[-1][1]:
            found[-1] = (found[-1][0], max(closes, found[-1][1]))
        else:
            found.append((opens, closes))
    return found


def _check_overlaps(pool: str, windows: list[Window]) -> None:
    begin, days = _A_YEAR
    every = sorted(
        (opens, closes, window)
        for window in windows
        for opens, closes in _moments([window], begin, days)
    )
    last: tuple[int, Window] | None = None
    for opens, closes, window in every:
        if last and opens < last[0]:
            both = f"'{last[1]}' and '{window}'" if window != last[1] else f"'{window}' and itself"
            raise _wrong(pool, f"overlap: {both}")
        last = closes, window


def _window(pool: str, entry: object) -> Window:
    fields = _fields(pool, entry)
    zone = fields.get("zone")
    if zone is None or zone == "":
        raise _wrong(pool, f"need a zone, such as Europe/Berlin or UTC: {entry!r} has none")
    begins, ends = (_minutes(pool, key, fields.get(key)) for key in ("from", "to"))
    if begins == ends:
        raise _wrong(
            pool,
            f"must not end when they begin: {entry!r}; a whole day is from 00:00 to 24:00",
        )
    if begins == _DAY:
        raise _wrong(pool, f"begin at 00:00 of the next day, not at 24:00: {entry!r}")
    return Window(_days(pool, fields.get("days")), begins, ends, _zone(pool, zone))


def _fields(pool: str, entry: object) -> Mapping[str, Any]:
    if isinstance(entry, str):
        found = _TEXT.fullmatch(entry.strip())
        if found:
            return found.groupdict()
        if re.fullmatch(r"\S+ +[0-9:]+ *- *[0-9:]+", entry.strip()):
            raise _wrong(pool, f"need a zone, such as Europe/Berlin or UTC: {entry!r} has none")
    elif isinstance(entry, Mapping):
        unknown = next((key for key in entry if key not in _KEYS), None)
        if unknown is None:
            return entry
        raise _wrong(pool, f"have {', '.join(_KEYS)}, not {unknown!r}")
    raise _wrong(pool, f"must be {_FORM}, not {entry!r}")


def _days(pool: str, value: object) -> tuple[int, ...]:
    words = value.split(",") if isinstance(value, str) else value
    if not isinstance(words, list | tuple) or not words:
        raise _wrong(pool, f"need days, such as [mon, tue], mon-fri or daily, not {value!r}")
    found: set[int] = set()
    for word in words:
        found.update(_days_in(pool, word))
    return tuple(sorted(found))


def _days_in(pool: str, word: object) -> Iterator[int]:
    """The days of a word such as `mon`, `mon-fri`, `sat-mon` or `daily`."""
    first, dash, last = str(word).strip().lower().partition("-")
    if first == "daily" and not dash:
        yield from range(7)
        return
    if first not in DAYS or (dash and last not in DAYS):
        raise _wrong(pool, f"have days {', '.join(DAYS)}, a range of them or daily, not {word!r}")
    day = DAYS.index(first)
    yield day
    while dash and DAYS[day] != last:
        day = (day + 1) % 7
        yield day


def _minutes(pool: str, key: str, value: object) -> int:
    """The minutes of a time of the day. YAML reads an unquoted 20:00 as its 1,200 minutes."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _DAY:
        return value
    found = _TIME.fullmatch(value.strip()) if isinstance(value, str) else None
    minutes = 60 * int(found["hour"]) + int(found["minute"]) if found else _DAY + 1
    if minutes > _DAY:
        raise _wrong(pool, f"need {key} as a time of the day, such as '20:00', not {value!r}")
    return minutes


def _zone(pool: str, name: object) -> str:
    try:
        return ZoneInfo(str(name)).key
    except (KeyError, ValueError, OSError):  # Not found, an odd name, a folder.
        raise _wrong(
            pool,
            f"have an unknown zone {name!r}; take a name of the IANA database, such as "
            "Europe/Berlin, America/New_York or UTC",
        ) from None


def _written(minutes: int) -> str:
    return f"{minutes // 60:02d}:{minutes % 60:02d}"


def _days_written(days: tuple[int, ...]) -> str:
    if len(days) == 7:
        return "daily"
    if len(days) > 2 and days[-1] - days[0] == len(days) - 1:
        return f"{DAYS[days[0]]}-{DAYS[days[-1]]}"
    return ",".join(DAYS[day] for day in days)


def _wrong(pool: str, right: str) -> InvalidRequest:
    return InvalidRequest(f"pool '{pool}': windows {right}", field="windows")
