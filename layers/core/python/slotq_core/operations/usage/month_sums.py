"""Add up this month's spending of projects with a budget, so that passes need not.

Each tick reads the records of the attempts that have ended since the last one. Records may be
written late, so unsettled ones are read again each time. For days that are added up already
(`day_sums`) the sum is used: so a new budget counts from the month's first day.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace

from slotq_core.errors import Conflict, NotUnderstood
from slotq_core.operations.usage.day_sums import RECORDS_A_READ
from slotq_core.ports.stored import Configuration
from slotq_core.ports.surroundings import Clock
from slotq_core.ports.usage import DaySum, MonthSum, UsageBook
from slotq_core.timestamps import iso
from slotq_core.usage.amounts import Window
from slotq_core.usage.calendar_days import begin_of, day_of, days, end_of, month_of, next_month

SETTLED = 600_000
"""Age (ms) from which a moment has all of its records: far above the time of a handler. A budget
would not count a record that came even later; `slotq usage` would."""

BUDGET = 5_000
"""Time (ms) that one tick may add up. The next tick continues."""


class MonthSums:
    """Adds up the present month. Any number may work at once."""

    def __init__(self, usage: UsageBook, clock: Clock) -> None:
        self._book = usage
        self._clock = clock

    def count(self, configuration: Configuration, now: int) -> None:
        """Add up, and store the sum if it has changed. Reads nothing where no project has a budget.
        Raises Unavailable."""
        projects = [
            project.name for project in configuration.sharing.projects if project.budget is not None
        ]
        if not projects:
            return
        seen = configuration.month_sum
        counted = _Counting(self._book, self._clock, begun(seen, projects, now), now).run()
        if counted != seen:
            with suppress(Conflict):  # Somebody else has added up.
                self._book.keep_month(seen, counted)


def begun(seen: MonthSum, projects: Iterable[str], now: int) -> MonthSum:
    """Return the sum to continue; a new one for a new month, or if a project was not counted."""
    month = month_of(now)
    if seen.month == month and seen.settled.keys() >= {*projects}:
        settled = {name: seen.settled[name] for name in projects}
        return replace(seen, settled=settled, recent={})
    return MonthSum(month=month, day=day_of(month), settled=dict.fromkeys(projects, 0))


class _Counting:
    def __init__(self, usage: UsageBook, clock: Clock, begun: MonthSum, now: int) -> None:
        self._book, self._clock, self._begun, self._now = usage, clock, begun, now
        self._window = Window(start=begun.month, end=next_month(begun.month))
        self._settled, self._recent = Counter(begun.settled), Counter[str]()
        self._at = begun.day, begun.through
        """The position up to which everything is settled: the day, and the last record's
        position."""
        self._latest = begun.through

    def run(self) -> MonthSum:
        """Read on until the end of the records, or of the time."""
        sums = self._sums()
        for day in days(self._begun.day, max(self._begun.day, day_of(self._now))):
            if not (self._add_day(day, sums) if day in sums else self._read_records(day)):
                break
        day, through = self._at
        return replace(
            self._begun,
            settled=dict(self._settled),
            recent={name: amount for name, amount in self._recent.items() if amount},
            day=day,
            through=through,
            latest=self._latest,
        )

    def _sums(self) -> Mapping[str, DaySum]:
        """Return the days that are added up and not begun. None is asked for in the usual case."""
        day, through = self._at
        if day >= day_of(self._now) or through:
            return {}
        found = self._book.sums(day)
        return {row.day: row for row in found if row.whole and row.readable}

    def _add_day(self, day: str, sums: Mapping[str, DaySum]) -> bool:
        for name in sums[day].parts:
            with suppress(NotUnderstood):
                for calendar_day, group, amounts in self._book.cells(name):
                    if group.project in self._settled and self._window.has(begin_of(calendar_day)):
                        self._settled[group.project] += amounts.slot_ms
        self._at = day_of(end_of(day)), ""
        return self._has_time

    def _read_records(self, day: str) -> bool:
        """Add the records of the day behind the position; return whether there is time left."""
        if self._at[0] != day:  # The day before has not settled.
            return self._read(day, "", self._recent)[1]
        settled_before = iso(self._now - SETTLED)
        through, whole = self._read(day, self._at[1], self._settled, before=settled_before)
        self._at = day, through
        if whole and end_of(day) <= self._now - SETTLED:
            self._at = day_of(end_of(day)), ""
        elif whole:
            _, whole = self._read(day, max(through, settled_before), self._recent)
        return whole

    def _read(
        self, day: str, after: str, amounts: Counter[str], *, before: str = ""
    ) -> tuple[str, bool]:
        """Add the records behind `after`; return the position of the last, and whether all were
        read."""
        more = True
        while more and self._has_time:
            read = self._book.ended(day, after=after, before=before, limit=RECORDS_A_READ)
            for use in read.uses:
                if use.project in self._settled and use.ended_at is not None:
                    amounts[use.project] += self._window.use_of(
                        use.slots, use.part_of_slot, use.used_since, use.ended_at
                    )
            after, more = read.last, read.more
            self._latest = max(self._latest, after)
        return after, not more

    @property
    def _has_time(self) -> bool:
        return self._clock.now() - self._now < BUDGET
