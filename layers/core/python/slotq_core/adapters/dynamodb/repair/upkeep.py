"""The upkeep of the table (`ports.store.Repair`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from slotq_core.adapters.dynamodb.calls import TableCalls
from slotq_core.adapters.dynamodb.layout import expressions, table
from slotq_core.adapters.dynamodb.layout.items import history_note_of, restore_of
from slotq_core.adapters.dynamodb.layout.records import Item
from slotq_core.adapters.dynamodb.layout.validation import UNREADABLE, Sieve, key_of, poison_of
from slotq_core.adapters.dynamodb.repair.inspection import Inspection
from slotq_core.adapters.dynamodb.repair.line_audit import LineAudit
from slotq_core.adapters.dynamodb.repair.quarantine import Quarantine
from slotq_core.errors import Conflict
from slotq_core.model.attempts import Restore


class DynamoRepair:
    """The repair of the table: the line audit, the quarantine, the inspection, and the expiry of
    records."""

    def __init__(
        self,
        calls: TableCalls,
        quarantine: Quarantine,
        line_audit: LineAudit,
        inspection: Inspection,
    ) -> None:
        self._calls, self._quarantine = calls, quarantine
        self.quarantine = quarantine.take
        self.audit = line_audit.examine_some
        self.inspect = inspection.run

    def last_restore(self) -> Restore | None:
        """Return the RESTORED item's content. An unreadable item counts as missing."""
        item = self._calls.item(table.restored_key())
        return next(iter(Sieve().read([item] if item else [], restore_of)), None)

    def expire(self, *, now: int, limit: int = 25) -> int:
        """Mark the records of up to `limit` ended jobs; return the number of jobs. DynamoDB itself
        removes marked records, within days of their time.

        The note is deleted last, so that the work is repeated after a crash. An unreadable note is
        set aside: otherwise such notes could delay all others.
        """
        done = 0
        for note in self._calls.query(expressions.partition(table.HISTORY), limit=limit):
            try:
                self._mark(note)
            except UNREADABLE as error:
                self._quarantine.take(poison_of(key_of(note), error))
                continue
            self._calls.delete((table.HISTORY, note["sk"]["S"]))
            done += 1
        return done

    def _mark(self, note: Item) -> None:
        job, entered, at = history_note_of(note)
        expression = expressions.expire(entry_time=entered, at=at)
        for key in self._records(job):
            with suppress(Conflict):  # Gone, or a record of a later job.
                self._calls.update(key, expression)

    def _records(self, job: str) -> Iterator[table.Key]:
        yield table.request_key(job)
        partition = table.job_partition(job)
        for item in self._calls.query(expressions.partition_from(partition, table.ATTEMPT_PREFIX)):
            if training_job := item.get("trainingJob", {}).get("S"):
                yield table.name_key(training_job)
            yield partition, item["sk"]["S"]
