"""Usage in a window, in pages: from sums of days where possible, else from records.

Each attempt counts once. The pages go through the days on which ends were recorded, in order. All
but the last page read only settled records: none is added there any more. The last page reads the
running attempts first and the newest records afterwards, so an attempt that ends in between is
found twice, and counted once.

A sum covers whole days. If the window begins or ends within a day, the records of the attempts that
touch that day are read, as long as the history contains them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Self

from slotq_core.errors import InvalidRequest, NotUnderstood
from slotq_core.operations.usage.day_sums import RECORDS_A_READ, SETTLED, first_day
from slotq_core.operations.usage.record_marks import NO_RECORD, RecordMark, mark_of, position_of
from slotq_core.ports.surroundings import Clock
from slotq_core.ports.usage import DaySum, EndedAttempts, UsageBook
from slotq_core.timestamps import FAR_OFF, iso
from slotq_core.usage.amounts import Totals, UsageGroup, Window, add_attempt, grouping, merge
from slotq_core.usage.attempt_use import AttemptUse, use_of
from slotq_core.usage.calendar_days import begin_of, day_of, days, is_day, month_of

PAGE_BUDGET = 10_000
"""Time (ms) after which a page ends, so that the answer precedes API Gateway's timeout of 29 s."""

MOST_ROWS = 3_000
"""The number of rows at which a page ends, so that its text stays far below Lambda's 6 MB."""

MOST_BUCKETS = 100_000
"""The same for all buckets of their histograms: a row may have hundreds."""

EARLIEST = begin_of("2000-01-01")
"""No window begins before (ms)."""

_POSITION = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})~([0-9]{1,9})~([0-9]{1,9})~([0-9TZ:.-]{0,30})~([0-9]{1,4})"
)

Identity = tuple[str, int, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class UsageCursor:
    """The position of the next page: times and numbers, never the name of a job, because the caller
    may lack access to some jobs."""

    day: str
    """The day on which ends were recorded."""
    parts: int = 0
    """How many parts of the day's sum are read."""
    records: int = 0
    """How many of its records are read, one by one or within the parts."""
    last: RecordMark = NO_RECORD
    """The last of them."""

    def text(self) -> str:
        """The position, in the API's form."""
        numbers = f"{self.day}~{self.parts}~{self.records}"
        return f"{numbers}~{self.last.moment}~{self.last.number}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises InvalidRequest."""
        found = _POSITION.fullmatch(text)
        if found is None or not is_day(found[1]):
            raise InvalidRequest("next takes what the page before answered as next", field="next")
        parts, records = int(found[2]), int(found[3])
        last = RecordMark(moment=found[4], number=int(found[5]))
        return cls(day=found[1], parts=parts, records=records, last=last)


@dataclass(frozen=True, kw_only=True, slots=True)
class UsagePage:
    """One page. The pages of one window add up to the answer."""

    window: Window
    as_of: int
    """The time (ms) until which running attempts are counted."""
    totals: Totals
    unreadable: int
    """Records that cannot be read and are not counted."""
    next: UsageCursor | None
    """Where the next page begins; None: this is the last page."""


class UsageReport:
    def __init__(self, usage: UsageBook, clock: Clock) -> None:
        self._book = usage
        self._clock = clock

    def page(
        self,
        *,
        start: int | None = None,
        end: int | None = None,
        by: Sequence[str] = (),
        after: UsageCursor | None = None,
        names: Callable[[UsageGroup], bool] = lambda _: True,
    ) -> UsagePage:
        """What was used from `start` to before `end` (ms), by fields of `usage.amounts.BY`.

        By default this calendar month so far. `names`: whether a group is shown with its submitter;
        the others are added up together. Raises InvalidRequest if the window is empty, or begins or
        ends within a day whose single attempts are no longer stored.
        """
        now = self._clock.now()
        window = Window(
            start=month_of(now) if start is None else max(start, EARLIEST),
            end=min(now if end is None else end, now),
        )
        if end is not None and end <= window.start:
            raise InvalidRequest("to must be later than from", field="to")
        reading = _Reading(
            self._book, self._clock, window=window, kept=grouping(by, names), now=now
        )
        following = reading.read(after) if window.start < window.end else None
        return UsagePage(
            window=window,
            as_of=now,
            totals=reading.totals,
            unreadable=reading.unreadable,
            next=following,
        )


class _Reading:
    """The reading of one page."""

    def __init__(
        self,
        usage: UsageBook,
        clock: Clock,
        *,
        window: Window,
        kept: Callable[[UsageGroup], UsageGroup],
        now: int,
    ) -> None:
        self._book = usage
        self._clock = clock
        self._window = window
        self._grouping = kept
        self._now = now
        self._running: set[Identity] | None = None
        """The running attempts, once they are counted."""
        self._steps = 0
        """Reads of parts and records. A page has at least one, so that pages come to an end."""
        self.totals: Totals = {}
        self.unreadable = 0

    def read(self, after: UsageCursor | None) -> UsageCursor | None:
        """Read one page; returns where the next one begins."""
        sums = {row.day: row for row in self._book.sums(day_of(self._window.start))}
        first = first_day(sums, start=self._window.start, now=self._now)
        at = after if after is not None and after.day >= first else UsageCursor(day=first)
        for day in days(at.day, max(at.day, day_of(self._now + FAR_OFF))):
            at = at if at.day == day else UsageCursor(day=day)
            stopped = self._read_day(at, sums.get(day))
            if stopped is not None:
                return stopped
        self._count_running()
        return None

    def _read_day(self, at: UsageCursor, there: DaySum | None) -> UsageCursor | None:
        """Read the rest of a day; returns where to go on if the page ends within."""
        if there is None or not there.readable:
            self.unreadable += int(there is not None)
            return self._read_records(at)
        kept = there.attempts + there.unreadable
        if (
            at.last.number
        ):  # The page before has begun with records; the sum may be newer than that.
            return self._read_records(at, kept=kept)
        outside = bool(there.begins) and begin_of(there.begins) >= self._window.end
        if not outside and not self._window.whole_days(there.begins or there.day, there.day):
            return self._read_records(at, kept=kept)
        for number in range(at.parts, 0 if outside else len(there.parts)):
            if self._is_full:
                return replace(at, parts=number)
            self._add_part(there.parts[number])
        if there.whole:
            self.unreadable += there.unreadable
            return None
        behind = UsageCursor(day=at.day, parts=len(there.parts), records=kept)
        return self._read_records(behind, after=there.through)

    def _add_part(self, name: str) -> None:
        self._steps += 1
        try:
            cells = self._book.cells(name)
        except NotUnderstood:
            self.unreadable += 1
            return
        inside = cache(lambda day: self._window.has(begin_of(day)))
        kept = self._grouping
        merge(self.totals, ((kept(group), amounts) for day, group, amounts in cells if inside(day)))

    def _read_records(
        self, at: UsageCursor, *, kept: int = 0, after: str = ""
    ) -> UsageCursor | None:
        """Add records of a day up one by one. `kept`: how many there were when the day was added
        up. `after`: the last record that is counted; empty: that of the position. Raises
        InvalidRequest if some are gone."""
        after = after or position_of(self._book, at.day, at.last)
        while True:
            if self._is_full and self._running is None:
                return replace(at, last=mark_of(self._book, at.day, after))
            self._steps += 1
            read = self._book.ended(at.day, after=after, limit=RECORDS_A_READ)
            if self._running is None and self._may_grow(at.day, read):
                self._count_running()
                continue
            self._add_uses(use for use in read.uses if use.identity not in (self._running or ()))
            self.unreadable += read.unreadable
            at = replace(at, records=at.records + len(read.uses) + read.unreadable)
            after = read.last
            if not read.more:
                break
        if at.records < kept:
            raise InvalidRequest(
                f"the queue no longer keeps the single attempts of {at.day}, only what they add up "
                "to by day: from and to must be midnight in UTC",
                field="from",
            )
        return None

    def _may_grow(self, day: str, read: EndedAttempts) -> bool:
        """Whether records may have been added, behind the first of these, since they were read."""
        settled = iso(self._now - SETTLED)
        return day >= settled[: len(day)] and (not read.more or read.last >= settled)

    def _count_running(self) -> None:
        if self._running is None:
            uses = [use_of(job, job.attempt) for job in self._book.running() if job.attempt]
            self._running = {use.identity for use in uses}
            self._add_uses(uses)

    def _add_uses(self, uses: Iterable[AttemptUse]) -> None:
        found: Totals = {}
        for use in uses:
            add_attempt(found, use, self._window, until=self._now)
        merge(self.totals, ((self._grouping(group), amounts) for group, amounts in found.items()))

    @property
    def _is_full(self) -> bool:
        late = self._clock.now() - self._now >= PAGE_BUDGET
        buckets = sum(len(amounts.waits.buckets) for amounts in self.totals.values())
        large = len(self.totals) >= MOST_ROWS or buckets >= MOST_BUCKETS
        return self._steps > 0 and (late or large)
