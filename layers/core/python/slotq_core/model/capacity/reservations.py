"""Slots of a pool that are set aside for one project, from a moment to another.

During a reservation its project may have these slots, whatever shares and quotas say. Other
projects use them meanwhile only by jobs that may be evicted. A reservation is no drain
(`reserve_after`), which keeps a pool free for one job.

See docs/policy-decisions.md#reservations.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from slotq_core.timestamps import Moment


@dataclass(frozen=True, kw_only=True, slots=True)
class Reservation:
    """Some slots of a pool for one project, for a time."""

    project: str
    slots: int
    begins: Moment
    """The first moment (ms)."""
    ends: Moment
    """The first moment (ms) after it."""
    zone: str = "UTC"
    """The time zone in which people read the moments, as the IANA database names it."""

    def lasts_at(self, moment: int) -> bool:
        """Whether it is in force at a moment (ms)."""
        return self.begins <= moment < self.ends


def reserved_at(reservations: Iterable[Reservation], moment: int) -> dict[str, int]:
    """The slots that are reserved at a moment (ms), by project."""
    found: dict[str, int] = {}
    for reservation in reservations:
        if reservation.lasts_at(moment):
            found[reservation.project] = found.get(reservation.project, 0) + reservation.slots
    return found


def reserved_until(reservations: Iterable[Reservation], project: str, begin: int, end: int) -> int:
    """The slots that are reserved for the project at each moment from `begin` to `end` (ms)."""
    own = [reservation for reservation in reservations if reservation.project == project]
    moments = [begin, *(r.ends for r in own if begin < r.ends < end)]
    return min(reserved_at(own, moment).get(project, 0) for moment in moments)


def most_reserved(reservations: Iterable[Reservation]) -> tuple[int, Reservation] | None:
    """The most slots that are reserved together, with the reservation at whose begin they first
    are; None: there is no reservation."""
    every = sorted(reservations, key=lambda reservation: reservation.begins)
    sums = ((sum(reserved_at(every, found.begins).values()), found) for found in every)
    return max(sums, key=lambda found: found[0], default=None)


def moments_of(reservations: Iterable[Reservation], after: int) -> Iterator[int]:
    """The begins and ends (ms) after a moment."""
    for reservation in reservations:
        yield from (at for at in (reservation.begins, reservation.ends) if at > after)


def held_beyond(reserved: Mapping[str, int], held: Mapping[str, int]) -> int:
    """The slots that projects hold or have reserved, each the larger of the two."""
    return sum(max(reserved.get(name, 0), held.get(name, 0)) for name in {*reserved, *held})
