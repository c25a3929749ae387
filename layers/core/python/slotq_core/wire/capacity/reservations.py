"""Reservations as people write them, and the moments that follow.

A reservation is written as `{project: team-a, slots: 4, begins: "2026-12-01 20:00", ends:
"2026-12-02 08:00", zone: Europe/Berlin}`. Its times are dates with a time of the day in the zone,
such as `2026-12-01 20:00`, or ISO 8601 with an offset, such as `2026-12-01T20:00+01:00`. The zone
may also stand behind the time: `2026-12-01 20:00 Europe/Berlin`. A number is seconds since 1970.

A time that a change of the clocks skips is the moment an hour later, and a time that comes twice is
the first of the two.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

from slotq_core.errors import InvalidRequest
from slotq_core.model.capacity.reservations import Reservation, most_reserved
from slotq_core.model.reasons import units
from slotq_core.timestamps import from_datetime, milliseconds, to_datetime, zoned

MOST = 50
"""The most reservations of a pool."""
LONGEST = 366 * 86_400_000
"""The longest reservation (ms)."""
MOST_SLOTS = 10_000
NO_NODES = (
    "a pool with nodes has no reservations, because jobs of several projects may share a node: "
    "leave out nodes, or reservations"
)
_KEYS = ("project", "slots", "begins", "ends", "zone")
_FORM = (
    "reservations such as {project: team-a, slots: 4, begins: '2026-12-01 20:00', ends: "
    "'2026-12-02 08:00', zone: Europe/Berlin}"
)
_ZONED = re.compile(r"(?P<time>[0-9T: .-]+[0-9]) +(?P<zone>[A-Za-z][A-Za-z0-9_+/-]*)")
_LAST = 253_402_300_799
"""Seconds: the end of the year 9999."""


def defined(pool: str, value: object) -> tuple[Reservation, ...]:
    """The reservations of a pool, the first to begin first. None and an empty list are none.

    Raises InvalidRequest for times without a zone, an end before the begin, and two of one project
    that begin at the same moment.
    """
    if value is None or value == "":
        return ()
    if isinstance(value, str | Mapping) or not isinstance(value, Iterable):
        raise _wrong(pool, f"must be {_FORM}, not {value!r}")
    found = [_reservation(pool, entry) for entry in value]
    if len(found) > MOST:
        raise _wrong(pool, f"are at most {MOST}, not {len(found)}: cancel some that are not needed")
    found.sort(key=lambda reservation: (reservation.begins, reservation.project))
    for one, other in pairwise(found):
        if (one.begins, one.project) == (other.begins, other.project):
            raise _wrong(
                pool, f"of project '{one.project}' begin twice at {_begin(one)}: make them one"
            )
    return tuple(found)


def fault_of(reservations: Iterable[Reservation], slots: int) -> str:
    """What is wrong with these reservations in a pool with so many slots; empty: nothing is."""
    most = most_reserved(reservations)
    if most is None or most[0] <= slots:
        return ""
    together, first = most
    has = f"the pool has {units(slots, 'slots')}"
    if first.slots > slots:
        return (
            f"project '{first.project}' reserves {units(first.slots, 'slots')} from "
            f"{_begin(first)}, and {has}"
        )
    return (
        f"{units(together, 'slots')} are reserved together when that of project '{first.project}' "
        f"begins at {_begin(first)}, and {has}"
    )


def check_fits(pool: str, reservations: Iterable[Reservation], slots: int) -> None:
    """Raises InvalidRequest if the reservations together are more than the pool has."""
    if fault := fault_of(reservations, slots):
        raise InvalidRequest(f"pool '{pool}': {fault}", field="reservations")


def as_json(reservation: Reservation) -> dict[str, Any]:
    """The reservation as `defined` takes it; its times in its zone, with their offsets."""
    return {
        "project": reservation.project,
        "slots": reservation.slots,
        "begins": _in_zone(reservation.begins, reservation.zone),
        "ends": _in_zone(reservation.ends, reservation.zone),
        "zone": reservation.zone,
    }


def moment(text: object, zone: str = "") -> tuple[int, str]:
    """The moment (ms) of a time, and its zone. `zone`: that of a time without one. Raises
    ValueError if the text is no time, or names no zone or an unknown one."""
    if isinstance(text, int | float) and not isinstance(text, bool) and 0 <= text <= _LAST:
        return milliseconds(text), zone or "UTC"
    stamp, zone = _stamp(text, zone)
    if stamp.tzinfo is None:
        if not zone:
            raise ValueError(f"{text!r} needs a zone, such as Europe/Berlin or UTC")
        stamp = stamp.replace(tzinfo=_zone(zone))
    try:
        return from_datetime(stamp.astimezone(UTC)), zone or _zone_of(stamp)
    except OverflowError:
        raise ValueError(_no_time(text)) from None


def _stamp(text: object, zone: str) -> tuple[datetime, str]:
    """The time as it is written, and its zone. YAML reads some times itself."""
    zoned = _ZONED.fullmatch(text.strip()) if isinstance(text, str) else None
    if zoned:
        text, zone = zoned["time"], zoned["zone"]
    if isinstance(text, str):
        try:
            return datetime.fromisoformat(text.strip()), zone
        except ValueError:
            raise ValueError(_no_time(text)) from None
    if not isinstance(text, datetime):
        raise ValueError(_no_time(text))
    return text, zone


def _reservation(pool: str, entry: object) -> Reservation:
    if not isinstance(entry, Mapping):
        raise _wrong(pool, f"must be {_FORM}, not {entry!r}")
    unknown = next((key for key in entry if key not in _KEYS), None)
    if unknown is not None:
        raise _wrong(pool, f"have {', '.join(_KEYS)}, not {unknown!r}")
    project, slots = entry.get("project"), entry.get("slots")
    if not isinstance(project, str) or not project:
        raise _wrong(pool, f"need a project: {dict(entry)!r}")
    if not isinstance(slots, int) or isinstance(slots, bool) or not 1 <= slots <= MOST_SLOTS:
        raise _wrong(pool, f"need slots from 1 to {MOST_SLOTS}, not {slots!r}")
    zone = entry.get("zone") or ""
    try:
        if zone:
            _zone(zone)
        begins, in_zone = moment(entry.get("begins"), zone)
        ends, _ = moment(entry.get("ends"), zone or in_zone)
    except ValueError as error:
        raise _wrong(pool, f"have a wrong time: {error}") from None
    if ends <= begins:
        raise _wrong(
            pool,
            f"must end after they begin: {entry.get('ends')!r} is not after {entry['begins']!r}",
        )
    if ends - begins > LONGEST:
        raise _wrong(pool, f"last a year at most: give the project a quota instead ({project})")
    return Reservation(
        project=project,
        slots=slots,
        begins=begins,
        ends=ends,
        zone=zone or in_zone,
    )


def _zone(name: object) -> ZoneInfo:
    try:
        return ZoneInfo(str(name))
    except (KeyError, ValueError, OSError):  # Not found, an odd name, a folder.
        raise ValueError(
            f"unknown zone {name!r}; take a name of the IANA database, such as Europe/Berlin, "
            "America/New_York or UTC"
        ) from None


def _zone_of(stamp: datetime) -> str:
    return stamp.tzinfo.key if isinstance(stamp.tzinfo, ZoneInfo) else "UTC"


def _in_zone(at: int, zone: str) -> str:
    return to_datetime(at).astimezone(ZoneInfo(zone)).isoformat()


def _begin(reservation: Reservation) -> str:
    return zoned(reservation.begins, reservation.zone)


def _no_time(value: object) -> str:
    return f"{value!r} is no time such as '2026-12-01 20:00 Europe/Berlin' or 2026-12-01T20:00Z"


def _wrong(pool: str, right: str) -> InvalidRequest:
    return InvalidRequest(f"pool '{pool}': reservations {right}", field="reservations")
