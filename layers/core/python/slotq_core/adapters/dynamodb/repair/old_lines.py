"""The lines of another version: whoever waits in them comes into this version's own.

A line's name says what its jobs have in common, so its form changes whenever the policy tells jobs
apart by something more. What waits was put there by whoever ran before: an earlier version, or a
later one that was taken back. A pass needs all of it, for the first of such a line may be the first
of all; so everything is brought over before anything is planned. Then nobody is left there, and an
empty line is removed as any other is; until then passes expect the other version's handlers, which
run on for a moment while functions are exchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from slotq_core.adapters.dynamodb.calls import TableCalls
from slotq_core.adapters.dynamodb.layout import expressions, table
from slotq_core.adapters.dynamodb.layout.items import items_of
from slotq_core.adapters.dynamodb.layout.validation import Sieve, is_own, job_in, key_in, key_of
from slotq_core.adapters.dynamodb.repair.copies import Copies
from slotq_core.adapters.dynamodb.transactions import MAX_ACTIONS, Action, check, delete, put
from slotq_core.errors import Conflict
from slotq_core.model.jobs import Job
from slotq_core.policy.lines import line_of
from slotq_core.ports import Poison

_AT_ONCE = MAX_ACTIONS // 3
"""Jobs in one transaction: each is checked, put and deleted."""


class OtherLines:
    def __init__(self, calls: TableCalls) -> None:
        self._calls = calls
        self._copies = Copies(calls)

    def put_back(self, *, now: int) -> None:
        """This version's lines that another has put aside: one that could not read them did so."""
        aside = expressions.partition_from(table.POISON, f'["{table.LINES}"')
        for item in self._calls.query(aside):
            line = key_in(Poison(key=item["sk"]["S"], reason=""))[1]
            if is_own(line):
                self._calls.update(table.line_key(line), expressions.touch_line(now))
                self._calls.delete(key_of(item))

    def bring_over(self, line: str, sieve: Sieve, *, now: int) -> bool:
        """Whoever waits there comes into this version's lines. Returns whether anybody was there;
        what cannot be understood stays, in the sieve."""
        items = [*self._calls.query(expressions.partition(table.waiting_partition(line)))]
        found = sieve.read(items, lambda item: (key_of(item), job_in(item)))
        copies = iter({job.name: (key, job) for key, job in found}.values())
        touched: set[str] = set()
        if items:  # It stays for a while yet.
            self._calls.update(table.line_key(line), expressions.touch_line(now))
        while some := [*islice(copies, _AT_ONCE)]:
            self._touch((job for _, job in some), touched, now)
            try:
                self._calls.transact([each for copy in some for each in self._move(*copy)])
            except Conflict:  # Some have changed since, or were left behind: one by one.
                for key, job in some:
                    self._copies.check(job.name, [key], mend=True)
        return bool(items)

    def _touch(self, jobs: Iterable[Job], touched: set[str], now: int) -> None:
        """The lines that they come into, before they do."""
        for line in sorted({line_of(job) for job in jobs} - touched):
            self._calls.update(table.line_key(line), expressions.touch_line(now))
            touched.add(line)

    def _move(self, key: table.Key, job: Job) -> Sequence[Action]:
        """Nobody has changed the job since this copy was written: a change writes them all."""
        name, own = self._calls.table, table.waiting_key(job)
        unchanged = expressions.job_unchanged(job.version)
        return [
            check(name, table.job_key(job.name), unchanged),
            put(name, own, items_of(job)[own]),
            delete(name, key),
        ]
