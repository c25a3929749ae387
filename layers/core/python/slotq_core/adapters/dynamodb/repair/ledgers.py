"""Compare a pool's ledger with the jobs that hold and claim slots there, and repair differences."""

from __future__ import annotations

from slotq_core.adapters.dynamodb.calls import TableCalls
from slotq_core.adapters.dynamodb.configuration import DynamoConfiguration
from slotq_core.adapters.dynamodb.held_slots import Holders, disagreement, read_holders
from slotq_core.adapters.dynamodb.layout import expressions, table
from slotq_core.adapters.dynamodb.layout.items import (
    NEW_AGE,
    foreign_attribute,
    free_attribute,
    used_attribute,
)
from slotq_core.adapters.dynamodb.layout.records import Item
from slotq_core.adapters.dynamodb.repair.copies import TRIES, ledger_in
from slotq_core.errors import Conflict, Unavailable
from slotq_core.model.pools import Pool
from slotq_core.ports.stored import Finding


class Ledgers:
    def __init__(self, calls: TableCalls, configuration: DynamoConfiguration) -> None:
        self._calls = calls
        self._configuration = configuration

    def check(self, name: str, *, mend: bool) -> list[Finding]:
        """Check the pool's ledger against its copies, which must be repaired first. If a copy is
        unreadable, the used amount is unknown, and the ledger stays as it is."""
        partition = expressions.partition(table.pool_partition(name))
        for _ in range(TRIES):
            pool = self._configuration.definition(name)
            items = [*self._calls.query(partition)]
            if items != [*self._calls.query(partition)]:
                continue
            read = read_holders(items)
            wrong = disagreement(read, pool.capacity if pool else None)
            mends = mend and not read.unreadable_copies
            if wrong and mends:
                try:
                    self._mend(name, ledger_in(items), read, pool)
                except Conflict:
                    continue
            finding = Finding(kind="ledger", subject=name, text=wrong, mended=mends)
            return [finding] if wrong else []
        raise Unavailable(f"pool {name}: its record is changing; try again")

    def _mend(self, name: str, ledger: Item, read: Holders, pool: Pool | None) -> None:
        version = read.ledger.version + 1 if read.whole else NEW_AGE
        after: Item = {
            "version": {"N": str(version)},
            "holders": {"N": str(read.held_marks)},
            **{used_attribute(n): {"N": str(more)} for n, more in read.held.items()},
            **{foreign_attribute(n): {"N": str(more)} for n, more in read.foreign.items()},
        }
        if "activity" in ledger:
            after["activity"] = ledger["activity"]
        if pool is not None:
            free = pool.capacity - read.held - read.foreign
            for resource in sorted({"slots", *pool.capacity, *free}):
                after[free_attribute(resource)] = {"N": str(free[resource])}
        unchanged = expressions.as_read(ledger, "version", "holders")
        self._calls.put(table.ledger_key(name), after, unchanged)
