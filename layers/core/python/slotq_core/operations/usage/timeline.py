"""The attempts that held slots in a window, in pages, for a timeline.

The pages list ended attempts in the order of recording, from the window's first day on: an attempt
of the window may have ended long after the window. Days whose sum begins after the window are
skipped. The attempts that still run follow, in the order of their admission.

A record may be written late. So running attempts are read before the newest records, and an attempt
that is found both ways counts as ended. Only if a page ends among the newest records, or among the
running attempts, may an attempt that ends just then be missing until the next read.

A later read need not start from the beginning: each page names the position up to which all
attempts are settled. A read from there returns later records and the attempts that run then.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Self

from slotq_core.errors import InvalidRequest
from slotq_core.operations.usage.day_sums import first_day
from slotq_core.operations.usage.month_sums import SETTLED
from slotq_core.operations.usage.record_marks import RecordMark, mark_of, position_of
from slotq_core.operations.usage.report import EARLIEST, PAGE_BUDGET, Identity
from slotq_core.ports.surroundings import Clock
from slotq_core.ports.usage import DaySum, EndedAttempts, UsageBook
from slotq_core.timestamps import FAR_OFF, iso
from slotq_core.usage.attempt_use import AttemptUse, use_of
from slotq_core.usage.calendar_days import DAY, begin_of, day_of, days, is_day

MOST_ATTEMPTS = 500
"""A page has no more, so its text stays below 1 MB."""

MOST_READS = 50
"""Number of reads after which a page ends, even without attempts in the window: so a month without
attempts is one page."""

MOST_RECORDS = 10_000
"""Number of records after which a page ends."""

_CURSOR = re.compile(
    r"((?:[0-9]{4}-[0-9]{2}-[0-9]{2})?)~([0-9]{1,9})~([0-9TZ:.-]{0,30})~([0-9]{1,4})"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Cursor:
    """The position of the next page: times and numbers, never the name of a job, because the caller
    may lack access to some jobs."""

    day: str = ""
    """The day on which ends were recorded; empty: all of these are read, and those that go on
    follow."""
    seen: int = 0
    """How many of its records are read."""
    moment: str = ""
    """When the last of them was recorded; when the last of those that go on was admitted."""
    at_moment: int = 0
    """How many of this very moment are read."""

    def text(self) -> str:
        """The cursor, in the API's form."""
        return f"{self.day}~{self.seen}~{self.moment}~{self.at_moment}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises InvalidRequest."""
        found = _CURSOR.fullmatch(text)
        if found is None or not (found[1] == "" or is_day(found[1])):
            raise InvalidRequest("next takes what the page before answered as next", field="next")
        return cls(day=found[1], seen=int(found[2]), moment=found[3], at_moment=int(found[4]))


@dataclass(frozen=True, kw_only=True, slots=True)
class Settled:
    """The first part of a page: no record is added there any more."""

    attempts: int
    """How many of the page's attempts, the first ones, are in this part."""
    gone: int
    unreadable: int
    next: Cursor
    """Where a later read continues and keeps this part."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TimelinePage:
    """One page. All pages are about the window from `start` to before `end` (ms)."""

    start: int
    end: int
    as_of: int
    """When the page was read (ms)."""
    attempts: tuple[AttemptUse, ...]
    """Ended attempts in the order of recording, then running ones."""
    gone: int
    """Attempts that ended on the days that the page has finished, and whose records have
    expired. Some of them may have been of the window."""
    unreadable: int
    next: Cursor | None
    """Where the next page begins; None: this is the last page."""
    settled: Settled | None
    """The part that no later read changes; None: the page begins behind that part."""


class Timeline:
    """Reads what a timeline draws."""

    def __init__(self, usage: UsageBook, clock: Clock) -> None:
        self._book = usage
        self._clock = clock

    def page(
        self,
        *,
        start: int | None = None,
        end: int | None = None,
        pool: str = "",
        after: Cursor | None = None,
    ) -> TimelinePage:
        """The attempts that held slots from `start` to before `end` (ms; default: the last day), in
        one pool or in all. Raises InvalidRequest if the window is empty."""
        now = self._clock.now()
        end = now if end is None else min(end, now)
        start = max(end - DAY if start is None else start, EARLIEST)
        if end <= start:
            raise InvalidRequest("to must be later than from, and from in the past", field="to")

        def is_shown(use: AttemptUse) -> bool:
            held_then = use.ended_at is None or use.ended_at > start
            begins_then = use.admitted_at >= start  # It may have ended at once.
            there = not pool or any(part.pool == pool for part in use.held)
            return use.admitted_at < end and (held_then or begins_then) and there

        reading = _Reading(self._book, self._clock, is_shown, now=now)
        following = reading.read(start, end, after)
        return TimelinePage(
            start=start,
            end=end,
            as_of=now,
            attempts=tuple(reading.found),
            gone=reading.gone,
            unreadable=reading.unreadable,
            next=following,
            settled=reading.settled,
        )


class _Reading:
    """The reading of one page."""

    def __init__(
        self, book: UsageBook, clock: Clock, is_shown: Callable[[AttemptUse], bool], *, now: int
    ) -> None:
        self._book = book
        self._clock = clock
        self._is_shown = is_shown
        self._now = now
        self._border = iso(now - SETTLED)
        """Moments before this one have all of their records."""
        self._running: dict[Identity, AttemptUse] | None = None
        """The running attempts, once they are read, without those found to have ended."""
        self._reads = 0
        self._records = 0
        self.found: list[AttemptUse] = []
        self.gone = 0
        self.unreadable = 0
        self.settled: Settled | None = None

    def read(self, start: int, end: int, after: Cursor | None) -> Cursor | None:
        """Read one page; returns where the next one begins."""
        if after is not None and not after.day:
            return self._take_running(after)
        begin = day_of(start)
        known = self._book.sums(begin if after is None else max(begin, after.day))
        sums = {row.day: row for row in known}
        first = first_day(sums, start=start, now=self._now)
        at = after if after is not None and after.day >= first else Cursor(day=first)
        for day in days(at.day, max(at.day, day_of(self._now + FAR_OFF))):
            if not _begins_after(end, sums.get(day)):
                stopped = self._read_day(at if at.day == day else Cursor(day=day), sums)
                if stopped is not None:
                    self._settle(stopped)
                    return stopped
        return self._take_running(Cursor())

    def _read_day(self, at: Cursor, sums: Mapping[str, DaySum]) -> Cursor | None:
        """Read the rest of a day; returns where to go on if the page ends within."""
        if self._is_full:
            return at
        seen, position = at.seen, self._position(at)
        for before in self._parts(at.day):
            if not before and at.day >= self._border[: len(at.day)]:
                self._settle(self._cursor(at.day, seen, position))
                self._those_running()
            more = True
            while more:
                read = self._next_records(at.day, position, before)
                number = len(read.uses) + read.unreadable
                self._take(read, number)
                seen, position, more = seen + number, read.last, read.more
                if more and self._is_full:
                    return self._cursor(at.day, seen, position)
            progress = seen > at.seen or self._reads > 1
            if before and progress and self._is_full:
                return self._cursor(at.day, seen, position)
        there = sums.get(at.day)
        if there is not None:
            self.gone += max(0, there.attempts + there.unreadable - seen)
        return None

    def _parts(self, day: str) -> tuple[str, ...]:
        """The positions before which the records of a day are read, one part after the other;
        empty: to the end. The day of the border has two parts."""
        return (self._border, "") if self._border.startswith(day) else ("",)

    def _settle(self, reached: Cursor) -> None:
        """Remember the position reached, unless unsettled records precede it."""
        if self.settled is None:
            self.settled = Settled(
                attempts=len(self.found),
                gone=self.gone,
                unreadable=self.unreadable,
                next=reached,
            )

    def _next_records(self, day: str, position: str, before: str) -> EndedAttempts:
        self._reads += 1
        limit = MOST_ATTEMPTS - len(self.found)
        return self._book.ended(day, after=position, before=before, limit=limit)

    def _take(self, read: EndedAttempts, number: int) -> None:
        self._records += number
        self.unreadable += read.unreadable
        self.found += filter(self._is_shown, read.uses)
        if self._running:
            for use in read.uses:
                self._running.pop(use.identity, None)

    def _take_running(self, after: Cursor) -> Cursor | None:
        """Add the running attempts that were admitted after the cursor's time."""
        shown = filter(self._is_shown, self._those_running().values())
        uses = sorted(shown, key=lambda use: (use.admitted_at, use.job))
        moments = [iso(use.admitted_at) for use in uses]
        begin = min(
            bisect_left(moments, after.moment) + after.at_moment,
            bisect_right(moments, after.moment),
        )
        end = begin + MOST_ATTEMPTS - len(self.found)
        self.found += uses[begin:end]
        if end >= len(uses):
            return None
        if end == begin:
            return after
        last = moments[end - 1]
        return Cursor(moment=last, at_moment=end - bisect_left(moments, last))

    def _those_running(self) -> Mapping[Identity, AttemptUse]:
        if self._running is None:
            uses = [use_of(job, job.attempt) for job in self._book.running() if job.attempt]
            self._running = {use.identity: use for use in uses}
        return self._running

    def _position(self, at: Cursor) -> str:
        """The record that the cursor means."""
        mark = RecordMark(moment=at.moment, number=at.at_moment)
        return position_of(self._book, at.day, mark)

    def _cursor(self, day: str, seen: int, position: str) -> Cursor:
        """The cursor that means a record, which is the last one read."""
        mark = mark_of(self._book, day, position)
        return Cursor(day=day, seen=seen, moment=mark.moment, at_moment=mark.number)

    @property
    def _is_full(self) -> bool:
        """Whether the page ends here. A page has at least one read, so that pages come to an
        end."""
        late = self._clock.now() - self._now >= PAGE_BUDGET
        much = (
            len(self.found) >= MOST_ATTEMPTS
            or self._reads >= MOST_READS
            or self._records >= MOST_RECORDS
        )
        return self._reads > 0 and (late or much)


def _begins_after(end: int, there: DaySum | None) -> bool:
    """Whether all attempts of a day that is added up were admitted after the window."""
    if there is None or not (there.readable and there.whole):
        return False
    return not there.begins or begin_of(there.begins) >= end
