"""This month's spending of projects with a budget: attributes of the REVISION item, which every
pass reads anyway.

`spent` is compressed JSON, and `spentVersion` counts its changes. A warning is an attribute of its
own, `warned/2026-11/vision`, so that only one of two handlers sets it.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict

from slotq_core.adapters.dynamodb.calls import TableCalls
from slotq_core.adapters.dynamodb.layout import expressions, table
from slotq_core.adapters.dynamodb.layout.records import Item
from slotq_core.adapters.dynamodb.layout.validation import UNREADABLE
from slotq_core.errors import Conflict
from slotq_core.model.projects import NOTHING_SPENT, Spending
from slotq_core.ports.usage import MonthSum
from slotq_core.usage.calendar_days import day_of

_WARNED = "warned/"
_AT_ONCE = 50
"""How many old warnings one update removes."""


def is_spending(attribute: str) -> bool:
    """Whether this attribute of the REVISION item changes without the configuration."""
    return attribute in {"spent", "spentVersion"} or attribute.startswith(_WARNED)


def month_sum_of(item: Item) -> MonthSum:
    """Return the sum in the REVISION item. An unreadable sum counts as missing: the next tick adds
    up the month again."""
    version = 0
    with suppress(*UNREADABLE):
        version = int(item["spentVersion"]["N"])
    with suppress(*UNREADABLE, zlib.error):
        found = json.loads(zlib.decompress(bytes(item["spent"]["B"])))
        return MonthSum(
            month=int(found["month"]),
            settled={str(name): int(own) for name, own in found["settled"].items()},
            recent={str(name): int(own) for name, own in found["recent"].items()},
            day=str(found["day"]),
            through=str(found["through"]),
            latest=str(found["latest"]),
            version=version,
        )
    return MonthSum(version=version)


def spending_of(item: Item, counted: MonthSum) -> Spending:
    """Return the policy's input."""
    if not counted.settled:
        return NOTHING_SPENT
    prefix = _mark("", counted.month)
    warned = frozenset(name.removeprefix(prefix) for name in item if name.startswith(prefix))
    return Spending(month=counted.month, slot_ms=counted.slot_ms(), warned=warned)


class MonthRecords:
    def __init__(self, calls: TableCalls) -> None:
        self._calls = calls

    def keep(self, seen: MonthSum, counted: MonthSum) -> None:
        contents = {key: own for key, own in asdict(counted).items() if key != "version"}
        packed = zlib.compress(json.dumps(contents, separators=(",", ":")).encode(), 9)
        expression = expressions.keep_sum("spent", packed, seen=seen.version)
        self._calls.update(table.revision_key(), expression)
        if counted.month != seen.month:
            self._forget_warnings_before(counted.month)

    def warn(self, project: str, month: int) -> bool:
        try:
            self._calls.update(table.revision_key(), expressions.note_once(_mark(project, month)))
        except Conflict:
            return False
        return True

    def take_back(self, project: str, month: int) -> None:
        self._forget([_mark(project, month)])

    def _forget_warnings_before(self, month: int) -> None:
        item = self._calls.item(table.revision_key()) or {}
        marks = sorted(name for name in item if name.startswith(_WARNED))
        old = [mark for mark in marks if mark < _mark("", month)]
        for start in range(0, len(old), _AT_ONCE):
            self._forget(old[start : start + _AT_ONCE])

    def _forget(self, marks: Sequence[str]) -> None:
        self._calls.update(table.revision_key(), expressions.forget_facts(marks))


def _mark(project: str, month: int) -> str:
    return f"{_WARNED}{day_of(month)[:7]}/{project}"
