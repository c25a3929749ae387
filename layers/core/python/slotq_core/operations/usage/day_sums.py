"""Add up the days that are over, so that the sums outlive the history.

A day is over when no handler can record an end in it any more. Its sum is computed from its records
alone, in steps: each step reads the records behind the last one and extends the sum on the
condition that no other handler has. So a crash or two handlers at once add nothing twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from slotq_core.errors import Conflict
from slotq_core.ports.surroundings import Clock, Scheduler
from slotq_core.ports.usage import DaySum, UsageBook
from slotq_core.usage.amounts import DayTotals, by_day, cells, merge
from slotq_core.usage.calendar_days import DAY, day_of, days, next_day
from slotq_core.usage.day_rows import parts_of

SETTLED = 3_600_000
"""Age (ms) from which a moment has all of its records: far above the life of a handler."""

LOOK_EVERY = 3_600_000
"""Interval (ms) between two searches for a day that is over."""

LOOK_BACK = 35 * DAY
"""How far back (ms) the first record is searched for while there is no sum."""

BUDGET = 5_000
"""Time (ms) that one tick may add up. The next tick continues."""

RECORDS_A_READ = 2_000
"""Records in one read: about one page of the store."""

TASK = "usage"


def first_day(sums: Mapping[str, DaySum], *, start: int, now: int) -> str:
    """The first day that may have records of attempts that ended from `start` on. Days are added up
    without gaps from the first record on, so no record is older than the first sum."""
    earliest = min(sums, default=day_of(now - LOOK_BACK))
    return max(day_of(start), earliest)


class DaySums:
    """Adds up days. Any number may work at once."""

    def __init__(self, usage: UsageBook, scheduler: Scheduler, clock: Clock) -> None:
        self._book, self._scheduler = usage, scheduler
        self._clock = clock
        self._next_look = 0
        """When this process looks again (ms). A new process looks at once; turns limit all."""

    def run_if_due(self, now: int) -> None:
        """Add up for at most BUDGET ms, if it is due and no other handler does. Raises
        Unavailable."""
        if now < self._next_look <= now + LOOK_EVERY:
            return
        taken = self._scheduler.take_turn(TASK, now=now, next_at=now + LOOK_EVERY)
        more = taken and self._leaves_work(now)
        if more:
            self._scheduler.postpone(TASK, next_at=now)
        self._next_look = now if more else now + LOOK_EVERY

    def _leaves_work(self, now: int) -> bool:
        """Add up until the budget is spent; returns whether days are left."""
        try:
            return any(
                not self._extend(unfinished, now + BUDGET) or self._clock.now() >= now + BUDGET
                for unfinished in self._unfinished(now)
            )
        except Conflict:
            return False  # Somebody else adds up this day.

    def _unfinished(self, now: int) -> Iterator[DaySum]:
        """The days that are over and not added up, in their order."""
        last_over = day_of(now - SETTLED - DAY)
        latest = self._book.last_sum()
        if latest is not None and latest.readable and not latest.whole:
            yield latest
        first = self._first_day(now) if latest is None else next_day(latest.day)
        if first is not None and first <= last_over:
            for day in days(first, last_over):
                yield DaySum(day=day)

    def _first_day(self, now: int) -> str | None:
        """The first day that has a record; None: there is no record."""
        for day in days(day_of(now - LOOK_BACK), day_of(now)):
            if self._book.ended(day, limit=1).last:
                return day
        return None

    def _extend(self, seen: DaySum, until: int) -> bool:
        """Add up more of a day; returns whether the day is whole. Raises Conflict."""
        found: DayTotals = {}
        extended, more = seen, True
        while more and (extended is seen or self._clock.now() < until):
            read = self._book.ended(seen.day, after=extended.through, limit=RECORDS_A_READ)
            for day, totals in by_day(read.uses).items():
                merge(found.setdefault(day, {}), totals.items())
            more = read.more
            extended = replace(
                extended,
                through=read.last,
                attempts=extended.attempts + len(read.uses),
                unreadable=extended.unreadable + read.unreadable,
                whole=not more,
            )
        begins = min([day for day in (seen.begins, *found) if day], default="")
        parts = parts_of(cells(found))
        self._book.extend(seen, replace(extended, begins=begins), parts)
        return extended.whole
