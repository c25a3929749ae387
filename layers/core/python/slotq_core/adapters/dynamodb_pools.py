"""What is known of a pool beside its definition: its health, and what others occupy of it."""

from __future__ import annotations

from dataclasses import replace

from slotq_core.adapters import dynamodb_expressions as expressions
from slotq_core.adapters import dynamodb_table as table
from slotq_core.adapters.dynamodb_calls import TableCalls
from slotq_core.adapters.dynamodb_items import foreign_of, health_of, ledger_of, pool_of, write
from slotq_core.errors import Conflict, Unavailable
from slotq_core.model import HEALTHY, Demand, Pool, PoolHealth

_TRIES = 20


class PoolFacts:
    def __init__(self, calls: TableCalls) -> None:
        self._calls = calls

    def pool(self, name: str) -> Pool | None:
        definition = self._calls.item(table.pool_key(name))
        if definition is None:
            return None
        health = self._calls.item(table.health_key(name))
        return replace(
            pool_of(definition),
            foreign=foreign_of(self._calls.item(table.ledger_key(name)) or {}),
            health=health_of(health) if health else HEALTHY,
        )

    def set_health(self, pool: str, health: PoolHealth) -> None:
        self._calls.put(table.health_key(pool), write(health))

    def set_foreign(self, pool: str, amount: Demand) -> None:
        for _ in range(_TRIES):
            ledger = self._calls.item(table.ledger_key(pool)) or {}
            before = foreign_of(ledger)
            if before == amount or "free_slots" not in ledger:
                return None
            change = expressions.count_foreign(amount, before, ledger_of(ledger).version)
            try:
                return self._calls.update(table.ledger_key(pool), change)
            except Conflict:
                continue
        raise Unavailable(f"pool {pool}: others change its ledger at this moment")
