"""Add up past use by project and user once an hour, so that passes need not.

The sum comes from the records alone: those of days that are added up (`day_sums`), the attempts
that have ended since, and those that go on. So any two handlers find the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress

from slotq_core.errors import Conflict, NotUnderstood
from slotq_core.operations.usage.day_sums import RECORDS_A_READ, SETTLED, first_day
from slotq_core.ports.stored import Configuration
from slotq_core.ports.surroundings import Clock
from slotq_core.ports.usage import DaySum, UsageBook
from slotq_core.usage.attempt_use import AttemptUse, use_of
from slotq_core.usage.calendar_days import day_of, days, end_of
from slotq_core.usage.past_use import HALVINGS, DayUse, add_attempt, hour_of, is_due, past_use

BUDGET = 5_000
"""Time (ms) that one tick may read. The next tick continues with the day after."""


class PastUses:
    """Adds up past use. Any number may work at once."""

    def __init__(self, usage: UsageBook, clock: Clock) -> None:
        self._book, self._clock = usage, clock
        self._settled: dict[str, DayUse] = {}
        """By day on which attempts ended, their use. None of these days changes any more."""

    def count(self, configuration: Configuration, now: int) -> None:
        """Add up the use until the last full hour and store it, if that is due. Reads nothing
        where past use does not count. Raises Unavailable."""
        sharing = configuration.sharing
        if sharing.fair_share is None or not is_due(configuration.past_use, sharing, now):
            return
        at = hour_of(now)
        found = self._found(at, at - HALVINGS * sharing.fair_share.half_life, now)
        if found is not None:
            with suppress(Conflict):  # Somebody else has added up.
                counted = past_use(found, at, sharing)
                self._book.keep_past_use(configuration.past_use_version, counted)

    def _found(self, at: int, start: int, now: int) -> list[DayUse] | None:
        """The use until an hour of attempts that ended from `start` on, or go on; None: the time is
        over."""
        running = {}  # Read first: whatever ends meanwhile has a record.
        for job in self._book.running():
            if job.attempt:
                running[job.name, job.attempt.number, job.attempt.admitted_at] = use_of(
                    job, job.attempt
                )
        sums = {row.day: row for row in self._book.sums(day_of(start)) if row.readable}
        first = first_day(sums, start=start, now=now)
        self._settled = {day: own for day, own in self._settled.items() if day >= first}
        unsettled: DayUse = {}
        for day in days(first, day_of(now)):
            if day in self._settled:
                continue
            if self._clock.now() >= now + BUDGET:
                return None
            if day in sums and sums[day].whole:
                self._settled[day] = self._added_up(sums[day])
            elif end_of(day) <= now - SETTLED:
                self._read(day, at, self._settled.setdefault(day, {}), {})
            else:
                self._read(day, at, unsettled, running)
        for use in running.values():
            add_attempt(unsettled, use, at)
        return [*self._settled.values(), unsettled]

    def _added_up(self, day: DaySum) -> DayUse:
        found: DayUse = {}
        for part in day.parts:
            with suppress(NotUnderstood):
                for calendar_day, group, amounts in self._book.cells(part):
                    there = found.setdefault(calendar_day, Counter())
                    there[group.project, group.pool, group.submitter] += amounts.slot_ms
        return found

    def _read(
        self, day: str, at: int, found: DayUse, running: Mapping[tuple[str, int, int], AttemptUse]
    ) -> None:
        """Add the attempts that ended on the day and are not counted as running."""
        after, more = "", True
        while more:
            read = self._book.ended(day, after=after, limit=RECORDS_A_READ)
            for use in read.uses:
                if use.identity not in running:
                    add_attempt(found, use, at)
            after, more = read.last, read.more
