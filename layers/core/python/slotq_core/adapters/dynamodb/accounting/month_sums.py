"""What projects with a budget have spent this month: attributes of the REVISION item, which every
pass reads anyway.

`spent` is compressed JSON, and `spentVersion` counts its changes. `warned` is a set of texts, one
for each month and project, so that of two handlers one alone adds a warning.
"""

from __future__ import annotations

import json
import zlib
from contextlib import suppress
from dataclasses import asdict

from slotq_core.adapters.dynamodb.calls import TableCalls
from slotq_core.adapters.dynamodb.dynamodb_errors import WrongType
from slotq_core.adapters.dynamodb.layout import expressions, table
from slotq_core.adapters.dynamodb.layout.items import Item
from slotq_core.adapters.dynamodb.layout.validation import UNREADABLE
from slotq_core.errors import Conflict
from slotq_core.model.budgets import Spending
from slotq_core.ports.usage import NO_MONTH, MonthSum
from slotq_core.usage.calendar_days import day_of

SPENT = frozenset({"spent", "spentVersion", "warned"})
"""The attributes of the REVISION item that change without the configuration."""


def month_sum_of(item: Item) -> MonthSum:
    """Return the sum in the REVISION item. One that cannot be read is as good as none: the next
    tick adds up the month anew."""
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
            version=version,
        )
    return MonthSum(version=version)


def spending_of(item: Item, counted: MonthSum) -> Spending:
    """Return what the policy is told."""
    if counted.month == NO_MONTH.month and not counted.settled:
        return Spending(warned=frozenset())
    prefix = _mark("", counted.month)
    marks = item.get("warned", {}).get("SS", ())
    told = frozenset(mark.removeprefix(prefix) for mark in marks if mark.startswith(prefix))
    return Spending(month=counted.month, slot_ms=counted.slot_ms(), warned=told)


class MonthRecords:
    def __init__(self, calls: TableCalls) -> None:
        self._calls = calls

    def keep(self, seen: MonthSum, counted: MonthSum) -> None:
        contents = {key: own for key, own in asdict(counted).items() if key != "version"}
        packed = zlib.compress(json.dumps(contents, separators=(",", ":")).encode(), 9)
        expression = expressions.keep_spent(packed, seen=seen.version)
        self._calls.update(table.revision_key(), expression)
        if counted.month != seen.month:
            self._forget_warnings_before(counted.month)

    def warn(self, project: str, month: int) -> bool:
        mark = _mark(project, month)
        try:
            self._calls.update(table.revision_key(), expressions.add_warning(mark))
        except Conflict:
            return False
        except WrongType:
            self._calls.update(table.revision_key(), expressions.new_warnings(mark))
        return True

    def take_back(self, project: str, month: int) -> None:
        with suppress(WrongType):
            expression = expressions.remove_warnings([_mark(project, month)])
            self._calls.update(table.revision_key(), expression)

    def _forget_warnings_before(self, month: int) -> None:
        item = self._calls.item(table.revision_key()) or {}
        old = [mark for mark in item.get("warned", {}).get("SS", ()) if mark < _mark("", month)]
        if old:
            with suppress(WrongType):
                self._calls.update(table.revision_key(), expressions.remove_warnings(old))


def _mark(project: str, month: int) -> str:
    return f"{day_of(month)[:7]}/{project}"
