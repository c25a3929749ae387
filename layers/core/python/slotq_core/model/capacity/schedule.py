"""The size of a pool as a function of time: from each moment on, so many slots are offered.

Opening hours are read outside the core (`wire.capacity`): here are moments only. A pool without
changes offers all its slots, always.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from slotq_core.timestamps import Duration, Moment


class SizeCause(StrEnum):
    """Why a pool offers as many slots as it does from a moment on."""

    OPEN = "open"
    """It offers all that it has."""
    WINDOW = "window"
    """Its opening hours are over."""
    PLAN = "plan"
    """Its training plan has no instances then, or fewer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SizeChange:
    """From a moment on, a pool offers another number of slots."""

    at: Moment
    """From when on jobs may count on the slots, or have to give them back (ms). Before a pool
    shrinks, its `suspend_grace` comes first: jobs that save are asked to suspend at this moment."""
    slots: int | None = None
    """The most slots that are offered; None: all that the pool has."""
    cause: SizeCause = SizeCause.OPEN
    grace: Duration = 0
    """How long after `at` the slots are really gone. Jobs that do not save are stopped then."""
    keeps: bool = False
    """Whether jobs that hold the slots go on all the same: nothing starts, and nothing is stopped
    for the change."""
    said: str = ""
    """The moment at which the slots come or go, in the words of the pool's hours: `20:00
    Europe/Berlin, 28 Nov`."""
    why: str = ""
    """Why the pool has no slots until further notice; empty: for its hours."""


Schedule = tuple[SizeChange, ...]
"""In the order of their moments. The last change lasts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SizeNow:
    """What a pool offers at a moment, and what comes next."""

    slots: int
    cause: SizeCause
    changes_at: Moment | None = None
    """When the number of slots changes next (ms); None: not known."""
    then: int | None = None
    """The number from then on."""
    moment: str = ""
    """`SizeChange.said` of that change."""
    why: str = ""
    """`SizeChange.why` of the present."""


def size_now(schedule: Schedule, now: int, *, of: int) -> SizeNow | None:
    """What a pool with so many slots (`of`) offers at `now` (ms); None: always all."""
    if not schedule:
        return None
    present, following = in_force(schedule, now), next_change(schedule, now)
    return SizeNow(
        slots=slots_at(schedule, now, of=of),
        cause=present.cause if present else SizeCause.OPEN,
        changes_at=following.at if following else None,
        then=slots_at(schedule, following.at, of=of) if following else None,
        moment=following.said if following else "",
        why=present.why if present else "",
    )


def in_force(schedule: Schedule, now: int) -> SizeChange | None:
    """The last change at or before `now` (ms); None: none has come yet."""
    return next((change for change in reversed(schedule) if change.at <= now), None)


def next_change(schedule: Schedule, now: int) -> SizeChange | None:
    """The first change after `now` (ms); None: none is known."""
    return next((change for change in schedule if change.at > now), None)


def next_opening(schedule: Schedule, now: int, slots: int) -> SizeChange | None:
    """The first change after `now` (ms) to at least so many slots; None: none is known."""
    later = (change for change in schedule if change.at > now)
    return next((c for c in later if c.slots is None or c.slots >= slots), None)


def slots_at(schedule: Schedule, now: int, *, of: int) -> int:
    """How many of a pool's slots (`of`) are offered at `now` (ms)."""
    change = in_force(schedule, now)
    return of if change is None or change.slots is None else min(of, change.slots)


def slots_left_at(schedule: Schedule, now: int, *, of: int) -> int:
    """The same with the slots that jobs which do not save may still hold: those of the changes
    whose grace is not over."""
    passed = (change for change in schedule if change.at + change.grace <= now)
    last: SizeChange | None = None
    for change in passed:
        last = change
    before = of if last is None or last.slots is None else min(of, last.slots)
    return max(before, slots_at(schedule, now, of=of))
