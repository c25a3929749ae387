"""Look whether a line's bound hides a job. The protocol (`layout.lines`) lets no bound do so; an
operator's hand or a bug may.

Each tick audits a few lines, the next ones each time, so that a hidden job is found within
`lines / AUDITED` minutes. An empty line that a pass no longer looks at is removed here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from slotq_core.adapters.dynamodb.calls import TableCalls
from slotq_core.adapters.dynamodb.layout import expressions, table
from slotq_core.adapters.dynamodb.layout.lines import StoredLine, is_counted, line_in
from slotq_core.adapters.dynamodb.layout.records import Item
from slotq_core.adapters.dynamodb.layout.validation import UNREADABLE, bearer
from slotq_core.adapters.dynamodb.line_bounds import LineBounds
from slotq_core.errors import Conflict
from slotq_core.ports.stored import Finding
from slotq_core.ports.surroundings import InParallel, one_by_one
from slotq_core.wire.pool_definition import MOST_SLOTS

MOST_COUNTED = MOST_SLOTS
"""How many jobs of one line an audit counts at most: no share is larger than a pool."""

AUDITED = 20
"""How many lines one audit examines, with a call or two for each."""


class LineAudit:
    def __init__(
        self, calls: TableCalls, bounds: LineBounds, at_once: InParallel = one_by_one
    ) -> None:
        """Set up the audit. `at_once` examines several lines at once."""
        self._calls = calls
        self._bounds = bounds
        self._at_once = at_once

    def examine_some(self, *, now: int) -> list[Finding]:
        """Examine the lines behind those of the last audit, and mend them. Two audits at once
        examine the same lines, which does no harm."""
        found = self._at_once(lambda item: [*self._examine(item, now)], self._next_lines())
        return [finding for findings in found for finding in findings]

    def hidden(self, line: str, bound: str, *, mend: bool) -> Iterator[Finding]:
        """Yield the first job of the line if it is below this bound, which was read before. Removes
        the bound with `mend`.

        A bound that still exists has existed all the while: a job that entered in between would
        have removed it, and for `GRACE` no pass would have set another.
        """
        below = expressions.partition_before(table.waiting_partition(line), bound)
        for item in self._calls.query(below, limit=1):
            if self._still(line, bound, mend=mend):
                text = f"it waits in line {line} below the line's bound, where no pass looks"
                name = bearer((line, item["sk"]["S"]))
                yield Finding(kind="line", subject=name, text=text, mended=mend)

    def _still(self, line: str, bound: str, *, mend: bool) -> bool:
        """Whether the line still has this bound. Removes it with `mend`."""
        key = table.line_key(line)
        if not mend:
            return (self._calls.item(key) or {}).get("bound") == {"S": bound}
        try:
            self._calls.update(key, expressions.remove_bound(bound))
        except Conflict:
            return False
        return True

    def _examine(self, item: Item, now: int) -> Iterator[Finding]:
        with suppress(*UNREADABLE):  # It names no line: a pass puts it aside.
            line = line_in(item, now)
            if line.own and line.broken:
                self._bounds.returned([line.name], now=now)
                text = "its bound, or the time of the last return, cannot be read"
                yield Finding(kind="unreadable", subject=line.name, text=text, mended=True)
            elif line.own and line.bound:
                yield from self.hidden(line.name, line.bound, mend=True)
            if line.own and is_counted(line.name):
                self._count(line, item)
            if line.outlived(now) and self._is_empty(line):
                self._bounds.remove(line, now=now)

    def _count(self, line: StoredLine, item: Item) -> None:
        """Count the line's jobs again. No finding: a count may lag."""
        partition = expressions.partition(table.waiting_partition(line.name))
        waiting = self._calls.count(partition, limit=MOST_COUNTED)
        if waiting != line.waiting and not (waiting == MOST_COUNTED < (line.waiting or 0)):
            corrected = expressions.correct_waiting(item, waiting)
            with suppress(Conflict):  # Somebody has counted since.
                self._calls.update(table.line_key(line.name), corrected)

    def _is_empty(self, line: StoredLine) -> bool:
        partition = expressions.partition(table.waiting_partition(line.name))
        return not any(True for _ in self._calls.query(partition, limit=1))

    def _next_lines(self) -> list[Item]:
        """Return the next lines, and note where the audit after this one begins."""
        key = table.task_key("audit")
        begin = str((self._calls.item(key) or {}).get("behind", {}).get("S", ""))
        some = (
            expressions.partition_after(table.LINES, begin)
            if begin
            else expressions.partition(table.LINES)
        )
        items = [*self._calls.query(some, limit=AUDITED)]
        end = items[-1]["sk"]["S"] if len(items) == AUDITED else ""
        if end != begin:
            self._calls.put(key, {"behind": {"S": end}} if end else {})
        return items
