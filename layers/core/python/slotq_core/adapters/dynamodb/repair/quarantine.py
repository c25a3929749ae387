"""Repair items that a pass could not read if their source still exists; else put them aside."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress

from slotq_core.adapters.dynamodb.calls import TableCalls
from slotq_core.adapters.dynamodb.configuration import DynamoConfiguration
from slotq_core.adapters.dynamodb.layout import expressions, table
from slotq_core.adapters.dynamodb.layout.items import (
    callback_of,
    history_note_of,
    in_parts_of,
    opening_of,
)
from slotq_core.adapters.dynamodb.layout.records import Item
from slotq_core.adapters.dynamodb.layout.validation import (
    bearer,
    is_line,
    key_in,
    node_at,
    whole_pool,
)
from slotq_core.adapters.dynamodb.line_bounds import LineBounds
from slotq_core.adapters.dynamodb.repair.copies import Copies, Ledgers
from slotq_core.adapters.dynamodb.repair.node_records import NodeRecords
from slotq_core.adapters.dynamodb.transactions import Action, update
from slotq_core.errors import Conflict
from slotq_core.model.jobs import ACTIVE_STATES
from slotq_core.ports.stored import Poison


def _pending_of(item: Item) -> object:
    from slotq_core.adapters.dynamodb.outbox.notices import pending_of  # Of no use to most starts.

    return pending_of(item)


READERS: Mapping[str, Callable[[Item], object]] = {
    table.PARTS: in_parts_of,
    table.OPENING: opening_of,
    table.HISTORY: history_note_of,
    table.PENDING: _pending_of,
    table.CALLBACKS: callback_of,
}
"""Partitions of tasks, and the reader of their items. An unreadable item would delay those behind
it, or block its name. Nothing else depends on it, so it is set aside."""

_ALONE = frozenset({table.HELD_PREFIX, table.YIELD_PREFIX, table.WARM_PREFIX})
"""Items of a pool that nothing else depends on."""


class Quarantine:
    def __init__(
        self, calls: TableCalls, configuration: DynamoConfiguration, bounds: LineBounds
    ) -> None:
        self._calls = calls
        self._bounds, self._configuration = bounds, configuration
        self.copies = Copies(calls, bounds)
        self.ledgers = Ledgers(calls, configuration)
        self.nodes = NodeRecords(calls, self.copies)

    def take(self, poison: Poison) -> None:
        key = key_in(poison)
        kind = key[1].partition("#")[0]
        if key == table.revision_key():
            self._configuration.mend_counts()
        elif key[0] == table.CONFIG:
            self._definition(key, poison)
        elif key[0] == table.LINES:
            self._line(key, poison)
        elif kind == table.LEDGER:
            self._ledger(key[0].removeprefix(table.POOL_PREFIX))
        elif (node := node_at(key)) is not None:
            self.nodes.check(*node, mend=True)
        elif key[0] in READERS or f"{kind}#" in _ALONE or kind == table.HEALTH:
            self._aside(key, poison)
        else:
            self.copies.check(bearer(key), [key], mend=True)

    def _definition(self, key: table.Key, poison: Poison) -> None:
        """Restore a pool's definition from the record of the last change. Without such a record,
        put the definition aside, also for handlers that have cached it."""
        broken = self._calls.item(key)
        if broken is None:
            return
        for definition in self._last_change():
            if whole_pool({**definition, "pk": broken["pk"], "sk": broken["sk"]}):
                with suppress(Conflict):  # An operator has configured the pool again.
                    self._calls.put(key, definition, expressions.unchanged(broken))
                return
        outdated = expressions.outdate_configuration()
        self._aside(key, poison, update(self._calls.table, table.revision_key(), outdated))

    def _last_change(self) -> Iterator[Item]:
        """Yield the definitions that the last change wrote, as stored."""
        changes = expressions.partition_from(table.CONFIG, table.CHANGE_PREFIX)
        for change in self._calls.query({**changes, "ScanIndexForward": False}, limit=1):
            for position, pool in enumerate(change.get("after", {}).get("L", [])):
                yield {**pool.get("M", {}), "position": {"N": str(position)}}

    def _line(self, key: table.Key, poison: Poison) -> None:
        if not is_line(key[1]):
            return self._aside(key, poison)
        return self._bounds.mend_touched(key[1])

    def _ledger(self, pool: str) -> None:
        """Check the copies of the pool's holders first, also of holders whose copy may be lost;
        then check the ledger."""
        partition = table.pool_partition(pool)
        seen: dict[str, list[table.Key]] = defaultdict(list)
        for item in self._calls.query(expressions.partition(partition)):
            if item["sk"]["S"].startswith((table.ANY_ACTIVE, table.CLAIM_PREFIX)):
                key = partition, str(item["sk"]["S"])
                seen[bearer(key)].append(key)
        for state in sorted(ACTIVE_STATES):
            index = {**expressions.in_state(state), "IndexName": table.BY_STATE}
            for item in self._calls.query(index, consistent=False):
                seen[item["pk"]["S"].partition("#")[2]] += []
        for name, keys in seen.items():
            self.copies.check(name, keys, mend=True)
        self.ledgers.check(pool, mend=True)

    def _aside(self, key: table.Key, poison: Poison, *along: Action) -> None:
        """Put the item aside, in one transaction with further actions."""
        item = self._calls.item(key)
        if item is not None:
            aside = self.copies.aside(key, item, poison.reason)
            with suppress(Conflict):  # The item was written again.
                self._calls.transact([*aside, *self.copies.noted([key], item), *along])
