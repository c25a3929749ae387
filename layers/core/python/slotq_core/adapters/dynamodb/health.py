"""The health of pools on DynamoDB (`ports.health.Health`): facts learned from SageMaker's answers,
the slots of foreign training jobs, and unexpected training jobs, remembered between two
reconciliations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from slotq_core.adapters.dynamodb.calls import Contended, TableCalls
from slotq_core.adapters.dynamodb.configuration import DynamoConfiguration
from slotq_core.adapters.dynamodb.layout import expressions, ledger_expressions, table
from slotq_core.adapters.dynamodb.layout.items import (
    foreign_of,
    free_of,
    health_of,
    ledger_of,
    sighting_of,
)
from slotq_core.adapters.dynamodb.layout.records import Item, write
from slotq_core.adapters.dynamodb.layout.validation import Sieve
from slotq_core.adapters.dynamodb.transactions import put, update
from slotq_core.errors import Conflict, Unavailable
from slotq_core.model.demand import Demand
from slotq_core.model.pools import HEALTHY, Pool, PoolHealth
from slotq_core.ports.training import Sighting

_TRIES = 20

T = TypeVar("T")


class DynamoHealth:
    def __init__(self, calls: TableCalls, configuration: DynamoConfiguration) -> None:
        self._calls, self._configuration = calls, configuration

    def pool(self, name: str) -> Pool | None:
        """Return the pool. An unreadable part counts as missing: a pass reports and repairs that
        part."""
        definition = self._configuration.definition(name)
        if definition is None:
            return None
        foreign = self._read(table.ledger_key(name), foreign_of) or Demand()
        return replace(definition, foreign=foreign, health=self.get(name))

    def get(self, pool: str) -> PoolHealth:
        return self._read(table.health_key(pool), health_of) or HEALTHY

    def _read(self, key: table.Key, reader: Callable[[Item], T]) -> T | None:
        item = self._calls.item(key)
        found = Sieve().read([item] if item else [], reader)
        return found[0] if found else None

    def set(self, pool: str, health: PoolHealth) -> None:
        """Store the facts, and note that in the pool's ledger. Without a ledger, no pass caches
        the pool."""
        name, item = self._calls.table, write(health)
        actions = [
            put(name, table.health_key(pool), item),
            update(name, table.ledger_key(pool), ledger_expressions.note_fact()),
        ]
        for _ in range(_TRIES):
            try:
                self._calls.transact(actions)
            except Contended:
                continue
            except Conflict:
                self._calls.put(table.health_key(pool), item)
            return self._calls.unannounced.note()
        raise Unavailable(f"pool {pool}: its ledger is changing; try again")

    def set_foreign(self, pool: str, amount: Demand) -> None:
        for _ in range(_TRIES):
            read = self._read(table.ledger_key(pool), _what_others_occupy)
            if read is None or not read[0] or read[1] == amount:
                return None
            _, before, version = read
            change = ledger_expressions.count_foreign(amount, before, version)
            try:
                self._calls.update(table.ledger_key(pool), change)
            except Conflict:
                continue
            return self._calls.unannounced.note()
        raise Unavailable(f"pool {pool}: its ledger is changing; try again")

    def sightings(self) -> tuple[Sighting, ...]:
        """Return the sightings. An unreadable one counts as never seen and is examined again."""
        items = self._calls.query(expressions.partition(table.SEEN))
        return tuple(Sieve().read(items, sighting_of))

    def remember(self, sighting: Sighting) -> None:
        self._calls.put(table.sighting_key(sighting.training_job), write(sighting))

    def forget(self, training_job: str) -> None:
        self._calls.delete(table.sighting_key(training_job))


def _what_others_occupy(ledger: Item) -> tuple[bool, Demand, int]:
    """Return whether the pool is open, what foreign training jobs occupy, and the ledger's
    version."""
    return free_of(ledger) is not None, foreign_of(ledger), ledger_of(ledger).version
