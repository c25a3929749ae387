"""The usage records of single attempts, as long as the history lasts, and sums by day."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable
from dataclasses import replace

from slotq_core.adapters.dynamodb.accounting.month_sums import MonthRecords
from slotq_core.adapters.dynamodb.accounting.past_use import packed_past_use
from slotq_core.adapters.dynamodb.calls import TableCalls
from slotq_core.adapters.dynamodb.configuration import DynamoConfiguration
from slotq_core.adapters.dynamodb.layout import expressions, table
from slotq_core.adapters.dynamodb.layout.items import day_sum_of, use_of_attempt
from slotq_core.adapters.dynamodb.layout.records import Item, write
from slotq_core.adapters.dynamodb.layout.validation import UNREADABLE, Sieve, copy_of
from slotq_core.errors import Conflict, NotUnderstood
from slotq_core.model.jobs import Job
from slotq_core.model.projects import PastUse
from slotq_core.ports.usage import DaySum, EndedAttempts, MonthSum
from slotq_core.usage.day_rows import Cell, read_part

_LAST_DAY = "9999-12-31"


class DynamoUsage:
    def __init__(self, calls: TableCalls, configuration: DynamoConfiguration) -> None:
        self._calls = calls
        self._configuration = configuration
        self._months = MonthRecords(calls)

    def keep_month(self, seen: MonthSum, counted: MonthSum) -> None:
        self._months.keep(seen, counted)

    def keep_past_use(self, seen: int, counted: PastUse) -> None:
        packed = packed_past_use(counted)
        expression = expressions.keep_sum("pastUse", packed, seen=seen)
        self._calls.update(table.revision_key(), expression)

    def warn(self, project: str, month: int) -> bool:
        return self._months.warn(project, month)

    def take_back_warning(self, project: str, month: int) -> None:
        self._months.take_back(project, month)

    def running(self) -> tuple[Job, ...]:
        found: dict[str, Job] = {}  # A job in several pools has a copy in each.
        for pool in self._configuration.pools():
            wanted = expressions.partition_from(table.pool_partition(pool.name), table.ANY_ACTIVE)
            found |= {job.name: job for job in Sieve().read(self._calls.query(wanted), copy_of)}
        return tuple(found.values())

    def ended(self, day: str, *, after: str = "", before: str = "", limit: int) -> EndedAttempts:
        pk = table.ended_partition(day)
        wanted = expressions.partition_after(pk, after) if after else expressions.partition(pk)
        if before:
            if before <= after:
                return EndedAttempts(uses=(), last=after, more=False)
            wanted = expressions.partition_between(pk, f"{after} ", before)
        items, sieve = [*self._calls.query(wanted, limit=limit)], Sieve()
        return EndedAttempts(
            uses=tuple(sieve.read(items, use_of_attempt)),
            last=items[-1]["sk"]["S"] if items else after,
            more=len(items) == limit,
            unreadable=len(sieve.poison),
        )

    def sums(self, first: str = "") -> tuple[DaySum, ...]:
        wanted = expressions.partition_between(table.USAGE, first or "0", _LAST_DAY)
        return tuple(_sum_in(item) for item in self._calls.query(wanted))

    def last_sum(self) -> DaySum | None:
        latest = {**expressions.partition(table.USAGE), "ScanIndexForward": False}
        return next((_sum_in(item) for item in self._calls.query(latest, limit=1)), None)

    def cells(self, part: str) -> tuple[Cell, ...]:
        item = self._calls.item(table.usage_part_key(part))
        try:
            return tuple(read_part(zlib.decompress(_content(item, part)).decode()))
        except (*UNREADABLE, zlib.error):
            raise NotUnderstood(f"the part {part} of the record of use cannot be read") from None

    def extend(self, seen: DaySum, extended: DaySum, parts: Iterable[str]) -> None:
        """Add the parts before the sum names them. A part's name contains a hash of its content, so
        two handlers that add up one day at once never overwrite each other's."""
        names = [*seen.parts]
        for text in parts:
            packed = zlib.compress(text.encode())
            names.append(f"{seen.day}#{len(names):04d}#{_digest(packed)}")
            self._calls.put(table.usage_part_key(names[-1]), {"cells": {"B": packed}})
        key = table.usage_key(seen.day)
        item = self._calls.item(key)
        if (DaySum(day=seen.day) if item is None else _sum_in(item)) != seen:
            raise Conflict(f"the sum of {seen.day} has changed since it was read")
        self._calls.put(
            key,
            write(replace(extended, parts=tuple(names))),
            expressions.is_new() if item is None else expressions.unchanged(item),
        )


def _content(item: Item | None, part: str) -> bytes:
    """Raises KeyError if the part does not exist, and ValueError if it is damaged."""
    packed = bytes((item or {})["cells"]["B"])
    if not part.endswith(f"#{_digest(packed)}"):
        raise ValueError(f"{part} has been changed")
    return packed


def _digest(packed: bytes) -> str:
    return hashlib.sha256(packed).hexdigest()[:16]


def _sum_in(item: Item) -> DaySum:
    try:
        return day_sum_of(item)
    except UNREADABLE:
        return DaySum(day=item["sk"]["S"], readable=False)
