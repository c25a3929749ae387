"""Find rows that can never be what conditions ask of them: whatever depends on one is refused, or
waits, for ever.

    row              what is conditioned on it              what it needs
    LEDGER           decisions about the pool               `version`, sound amounts: `copies`
    JOB              every change of the job                `version`, sound copies: `copies`
    REVISION         changes of the configuration, of       sound counts, and the document that
                     groups, and of what projects spent     it names
    PARTS            every part of that decision            to be readable, and marked in REVISION
    LINES            touches, returns, bounds, counts       to be as it was read: `line_audit`
    OPENING          the submission of the group            to be readable
    HISTORY PENDING  the tasks behind it, in their order    to be readable
    CALLBACKS        the answer to whoever waits            to be readable
    USAGE            the next sum                           to be as it was read
    CALLERS          the next count and correction          nothing: a broken one starts again
    WAKE, tasks      a lease, a turn                        nothing: a broken one counts as free

The rest of the table is written without conditions, or under new keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from slotq_core.adapters.dynamodb.calls import TableCalls
from slotq_core.adapters.dynamodb.configuration import DynamoConfiguration
from slotq_core.adapters.dynamodb.layout import expressions, table
from slotq_core.adapters.dynamodb.layout.records import Item
from slotq_core.adapters.dynamodb.layout.validation import UNREADABLE, Sieve, key_of, poison_of
from slotq_core.adapters.dynamodb.repair.quarantine import READERS, Quarantine
from slotq_core.errors import Conflict
from slotq_core.ports.stored import Finding


class Conditions:
    def __init__(
        self,
        calls: TableCalls,
        configuration: DynamoConfiguration,
        quarantine: Quarantine,
        clock: Callable[[], int],
    ) -> None:
        """Set up the check. `clock` gives the time (ms)."""
        self._calls, self._configuration = calls, configuration
        self._quarantine, self._clock = quarantine, clock

    def check(self, tasks: Iterable[Item], *, mend: bool) -> Iterator[Finding]:
        """Yield the items that can never meet their conditions. `tasks`: the items of the
        partitions in `READERS`."""
        yield from self._counts(mend=mend)
        yield from self._document(mend=mend)
        yield from self._tasks(tasks, mend=mend)
        yield from self._unmarked_decision(mend=mend)

    def _counts(self, *, mend: bool) -> Iterator[Finding]:
        found = self._configuration.unmeetable_counts()
        if found and mend:
            self._configuration.mend_counts()
        for name in found:
            text = "this count of the configuration cannot be read: what depends on it is refused"
            yield Finding(kind="unreadable", subject=name, text=text, mended=mend)

    def _document(self, *, mend: bool) -> Iterator[Finding]:
        lost = self._configuration.lost_document()
        if not lost:
            return
        mended = False
        if mend:
            with suppress(Conflict):  # Somebody is configuring; the next examination looks again.
                mended = self._configuration.put_back_document(lost, self._clock())
        text = (
            f"document {lost}, the departments and projects that the configuration names, is "
            "missing or cannot be read: nothing is decided. `--fix` goes back to the last one on "
            "record that can be read; if there is none, restore a backup"
        )
        yield Finding(kind="unreadable", subject="projects", text=text, mended=mended)

    def _tasks(self, tasks: Iterable[Item], *, mend: bool) -> Iterator[Finding]:
        for item in tasks:
            key = key_of(item)
            try:
                READERS[key[0]](item)
            except UNREADABLE as error:
                if mend:
                    self._quarantine.take(poison_of(key, error))
                text = f"{'/'.join(key)} cannot be read ({error}): `--fix` sets it aside"
                yield Finding(kind="unreadable", subject=key[1], text=text, mended=mend)

    def _unmarked_decision(self, *, mend: bool) -> Iterator[Finding]:
        """A decision in parts that no load finds: it is never finished, and it blocks all others.
        Its record is read before the mark, so a decision that ends meanwhile is no finding."""
        parts = self._calls.item(table.parts_key())
        readable = Sieve().read([parts] if parts else [], READERS[table.PARTS])
        if not readable or "inParts" in (self._calls.item(table.revision_key()) or {}):
            return
        if mend:
            marked = expressions.on_condition(expressions.mark_in_parts(), expressions.is_there())
            with suppress(Conflict):
                self._calls.update(table.revision_key(), marked)
        text = "a decision about it is not finished, and no pass would find it"
        yield Finding(kind="unmarked_decision", subject="groups", text=text, mended=mend)
