"""The usage records in memory, in the text form of the real store."""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from slotq_core.errors import Conflict, NotUnderstood
from slotq_core.model.jobs import Job
from slotq_core.model.projects import NO_PAST_USE, NOTHING_SPENT, PastUse, Spending
from slotq_core.ports.usage import NO_MONTH, DaySum, EndedAttempts, MonthSum
from slotq_core.storage.ends import EndedRecord
from slotq_core.usage.day_rows import Cell, read_part


class MemoryUsage:
    """`running` returns every job that holds slots."""

    def __init__(self, running: Callable[[], Sequence[Job]]) -> None:
        self._running = running
        self._lock = threading.Lock()
        self._positions: dict[str, list[str]] = defaultdict(list)
        self._records: dict[str, EndedRecord] = {}
        self._sums: dict[str, DaySum] = {}
        self._parts: dict[str, str] = {}
        self.month = NO_MONTH
        self.past_use = NO_PAST_USE
        self.past_use_version = 0
        self._warned: set[tuple[int, str]] = set()

    def keep(self, record: EndedRecord) -> None:
        with self._lock:
            insort(self._positions[record.day], record.position)
            self._records[record.position] = record

    def expire(self, now: int) -> None:
        """Remove the records whose time has come (ms)."""
        with self._lock:
            for day, positions in [*self._positions.items()]:
                kept = [at for at in positions if self._records[at].expires_at * 1000 > now]
                for gone in set(positions) - set(kept):
                    del self._records[gone]
                self._positions[day] = kept

    def running(self) -> tuple[Job, ...]:
        return tuple(self._running())

    def ended(self, day: str, *, after: str = "", before: str = "", limit: int) -> EndedAttempts:
        with self._lock:
            there = self._positions.get(day, [])
            begin = bisect_right(there, after)
            end = bisect_left(there, before) if before else len(there)
            found = there[begin : min(begin + limit, max(begin, end))]
            uses = tuple(self._records[position].use for position in found)
        last = found[-1] if found else after
        return EndedAttempts(uses=uses, last=last, more=len(found) == limit)

    def sums(self, first: str = "") -> tuple[DaySum, ...]:
        return tuple(self._sums[day] for day in sorted(self._sums) if day >= first)

    def last_sum(self) -> DaySum | None:
        return self._sums[max(self._sums)] if self._sums else None

    def cells(self, part: str) -> tuple[Cell, ...]:
        if part not in self._parts:
            raise NotUnderstood(f"there is no part {part} of the record of use")
        return tuple(read_part(self._parts[part]))

    def extend(self, seen: DaySum, extended: DaySum, parts: Iterable[str]) -> None:
        with self._lock:
            if self._sums.get(seen.day, DaySum(day=seen.day)) != seen:
                raise Conflict(f"the sum of {seen.day} has changed since it was read")
            names = [*seen.parts]
            for text in parts:
                names.append(f"{seen.day}#{len(names):04d}")
                self._parts[names[-1]] = text
            self._sums[seen.day] = replace(extended, parts=tuple(names))

    def keep_month(self, seen: MonthSum, counted: MonthSum) -> None:
        with self._lock:
            if self.month.version != seen.version:
                raise Conflict("somebody else has added up the month")
            self.month = replace(counted, version=seen.version + 1)

    def keep_past_use(self, seen: int, counted: PastUse) -> None:
        with self._lock:
            if self.past_use_version != seen:
                raise Conflict("somebody else has added up past use")
            self.past_use, self.past_use_version = counted, seen + 1

    def warn(self, project: str, month: int) -> bool:
        with self._lock:
            known = (month, project) in self._warned
            self._warned.add((month, project))
            return not known

    def take_back_warning(self, project: str, month: int) -> None:
        with self._lock:
            self._warned.discard((month, project))

    def spending(self) -> Spending:
        """The policy's input about the month."""
        with self._lock:
            counted = self.month
            if counted.version == 0:
                return NOTHING_SPENT
            warned = frozenset(name for month, name in self._warned if month == counted.month)
            return Spending(month=counted.month, slot_ms=counted.slot_ms(), warned=warned)
