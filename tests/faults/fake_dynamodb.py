"""The emulator's DynamoDB, with what takes time in the real one.

A transaction takes time. While one is under way (`during` lets others work meanwhile) its items
belong to it: another transaction that touches one of them is cancelled with TransactionConflict, a
single write is refused with TransactionConflictException, a GetItem and a BatchGetItem, which reads
each item as a GetItem does, still see what was, and a Query may see half of it, as DynamoDB's
isolation levels allow. Inconsistent reads lag.

The contract suite runs against it as it does against the real engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from slotq.local.services.dynamodb import (
    Action,
    Change,
    InMemoryDynamo,
    Key,
    Request,
    Table,
    Written,
    action_key,
    cancelled,
    error,
    key_of,
)
from slotq.local.services.expressions import Item

__all__ = ["Action", "Change", "FakeDynamo", "Key", "Request", "Table", "action_key", "key_of"]


def nothing() -> None: ...


class FakeDynamo(InMemoryDynamo):
    """One account's tables."""

    def __init__(self) -> None:
        super().__init__()
        self.now: Callable[[], int] = lambda: 0
        """The time (ms)."""
        self.lag = 0
        """The lag of inconsistent reads (ms): they see the table as it was."""
        self._recent: list[tuple[int, str, Key, Item | None]] = []
        """The writes within the lag: time, key, and the item before."""
        self._in_flight: dict[tuple[str, Key], Item | None] = {}
        """The items of transactions in flight, as before them."""

    def forget_what_was(self) -> None:
        """Let inconsistent reads see each table as it is now."""
        self._recent.clear()

    # --- reads

    def _item(self, table: str, key: Request, operation: str) -> Item | None:
        there = super()._item(table, key, operation)
        if operation not in {"GetItem", "BatchGetItem"}:
            return there
        return self._in_flight.get((table, key_of(key, operation)), there)

    def _read_table(self, request: Request, operation: str) -> Table:
        there = super()._read_table(request, operation)
        if operation == "Scan" or not self._recent or request.get("ConsistentRead"):
            return there
        return self._as_it_was(request["TableName"])

    def _as_it_was(self, name: str) -> Table:
        since = self.now() - self.lag
        self._recent = [write for write in self._recent if write[0] > since]
        there = self.tables[name]
        if not self._recent:
            return there
        old = there.copy()
        for _, where, key, before in reversed(self._recent):
            if where == name:
                old.put(key, before)
        return old

    # --- writes

    def transact_write_items(
        self, *, during: Callable[[], None] = nothing, **request: Any
    ) -> dict[str, Any]:
        """Call `during` while the transaction is in flight: once before its effect, and once while
        it becomes visible."""
        actions = self._actions(request)
        with self._lock:
            keys = self._begin(actions)
        try:
            during()
            with self._lock:
                written = self._decided(actions)
                middle = len(written) // 2
                self._put(written[:middle])
            if during is not nothing:
                during()
            with self._lock:
                self._put(written[middle:])
        finally:
            for key in keys:
                self._in_flight.pop(key, None)
        self.on_write([change for _, change in written])
        return {}

    def _begin(self, actions: Sequence[Action]) -> list[tuple[str, Key]]:
        """Make the items the transaction's own, or refuse it."""
        keys = self._hold(actions)
        for name, key in keys:
            self._in_flight[name, key] = self.tables[name].items.get(key)
        return keys

    def _hold(self, actions: Sequence[Action]) -> list[tuple[str, Key]]:
        """The items of a transaction, none of which is another's."""
        keys = [(action[1]["TableName"], action_key(action)) for action in actions]
        busy = ["TransactionConflict" if key in self._in_flight else "None" for key in keys]
        if "TransactionConflict" in busy:
            raise cancelled([{"Code": code} for code in busy])
        return keys

    def _single(self, operation: str, request: Request) -> dict[str, Any]:
        with self._lock:
            self._check_free(operation, request)
            return super()._single(operation, request)

    def _check_free(self, operation: str, request: Request) -> None:
        key = action_key((operation.removesuffix("Item"), request))
        if (request["TableName"], key) in self._in_flight:
            raise error(operation, "TransactionConflictException", "a transaction is under way")

    def _put(self, written: Sequence[Written]) -> None:
        super()._put(written)
        if self.lag:
            now = self.now()
            self._recent += [(now, name, key, before) for name, (key, before, _) in written]
