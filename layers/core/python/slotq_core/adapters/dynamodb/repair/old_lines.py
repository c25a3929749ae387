"""Move jobs from another version's lines into this version's lines.

A line's name says what its jobs have in common. The form of the name therefore changes whenever the
policy distinguishes jobs by something more. Another version may have put jobs into its own lines:
an earlier version, or a later one that was rolled back.

A pass needs all of these jobs, because the first job of such a line may be the first of all.
Therefore every job is moved before anything is planned. The other version's line is then empty and
is removed like any other empty line. Until then, passes expect handlers of the other version, which
run on for a moment while functions are exchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from slotq_core.adapters.dynamodb.calls import TableCalls
from slotq_core.adapters.dynamodb.layout import expressions, table
from slotq_core.adapters.dynamodb.layout.items import items_of
from slotq_core.adapters.dynamodb.layout.validation import Sieve, is_own, job_in, key_in, key_of
from slotq_core.adapters.dynamodb.line_bounds import LineBounds
from slotq_core.adapters.dynamodb.repair.copies import Copies
from slotq_core.adapters.dynamodb.transactions import MAX_ACTIONS, Action, check, delete, put
from slotq_core.errors import Conflict
from slotq_core.model.jobs import Job
from slotq_core.policy.lines import line_of
from slotq_core.ports.stored import Poison

_AT_ONCE = MAX_ACTIONS // 3
"""Jobs in one transaction: each job takes a check, a put and a delete."""


class OtherLines:
    def __init__(self, calls: TableCalls, bounds: LineBounds) -> None:
        self._calls = calls
        self._bounds = bounds
        self._copies = Copies(calls, bounds)

    def put_back(self, *, now: int) -> None:
        """Restore lines of this version that another version put aside because it could not read
        them."""
        aside = expressions.partition_from(table.POISON, f'["{table.LINES}"')
        for item in self._calls.query(aside):
            line = key_in(Poison(key=item["sk"]["S"], reason=""))[1]
            if is_own(line):
                self._bounds.returned([line], now=now)
                self._calls.delete(key_of(item))

    def move_to_own_lines(self, line: str, sieve: Sieve, *, now: int) -> bool:
        """Move the line's jobs into this version's lines. Return whether the line had any items.
        Unreadable items stay, and are noted in the sieve."""
        items = [*self._calls.query(expressions.partition(table.waiting_partition(line)))]
        found = sieve.read(items, lambda item: (key_of(item), job_in(item)))
        copies = iter({job.name: (key, job) for key, job in found}.values())
        entered: set[str] = set()
        if items:  # The line stays for a while.
            self._calls.update(
                table.line_key(line), expressions.touch_line(now, known=False, arriving=0)
            )
        while some := [*islice(copies, _AT_ONCE)]:
            new = {line_of(job) for _, job in some} - entered
            self._bounds.returned(new, now=now)
            entered |= new
            try:
                self._calls.transact([action for copy in some for action in self._move(*copy)])
            except Conflict:  # Some have changed since, or were left behind: check each alone.
                for key, job in some:
                    self._copies.check(job.name, [key], mend=True)
        return bool(items)

    def _move(self, key: table.Key, job: Job) -> Sequence[Action]:
        """Return the actions that move a job, on the condition that the job has not changed since
        this copy was written. Every change writes all copies."""
        name, own = self._calls.table, table.waiting_key(job)
        unchanged = expressions.job_unchanged(job.version)
        return [
            check(name, table.job_key(job.name), unchanged),
            put(name, own, items_of(job)[own]),
            delete(name, key),
        ]
