"""Calls to one table: paging, consistency, errors. The store itself handles items only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from slotq_core.adapters.dynamodb.dynamodb_errors import translated
from slotq_core.adapters.dynamodb.layout.expressions import Expression
from slotq_core.adapters.dynamodb.layout.items import keyed
from slotq_core.adapters.dynamodb.layout.records import Item
from slotq_core.adapters.dynamodb.layout.table import Key
from slotq_core.adapters.dynamodb.transactions import Action


class TableCalls:
    """One table. Every method may raise the errors that `dynamodb_errors` names."""

    def __init__(self, client: Any, table: str) -> None:
        self._client = client
        self.table = table

    def item(self, key: Key) -> Item | None:
        """Read one item, strongly consistent."""
        with translated():
            answer: dict[str, Item] = self._client.get_item(
                TableName=self.table, Key=keyed(key), ConsistentRead=True
            )
        return answer.get("Item")

    def query(
        self,
        expression: Expression,
        *,
        limit: int | None = None,
        at_once: int | None = None,
        consistent: bool = True,
    ) -> Iterator[Item]:
        """Yield the items, at most `limit`. Each page is read on demand: with `at_once`, so many
        items at first, then each time twice as many."""
        for answer in self._pages(expression, limit, at_once, consistent=consistent):
            yield from answer["Items"]

    def scan(self, expression: Expression) -> Iterator[Item]:
        """Yield every item that the expression admits, strongly consistent. For people only."""
        request = {**expression, "TableName": self.table, "ConsistentRead": True}
        while True:
            with translated():
                answer = self._client.scan(**request)
            yield from answer["Items"]
            if "LastEvaluatedKey" not in answer:
                return
            request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]

    def count(self, expression: Expression, *, limit: int | None = None) -> int:
        """Return the number of items, or `limit` if there are more; not strongly consistent."""
        pages = self._pages({**expression, "Select": "COUNT"}, limit, consistent=False)
        return sum(answer["Count"] for answer in pages)

    def _pages(
        self,
        expression: Expression,
        limit: int | None,
        at_once: int | None = None,
        *,
        consistent: bool,
    ) -> Iterator[dict[str, Any]]:
        request = {**expression, "TableName": self.table, "ConsistentRead": consistent}
        while limit is None or limit > 0:
            bounds = [each for each in (limit, at_once) if each is not None]
            if bounds:
                request["Limit"] = min(bounds)
            with translated():
                answer = self._client.query(**request)
            yield answer
            if "LastEvaluatedKey" not in answer:
                return
            request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]
            limit = None if limit is None else limit - answer["Count"]
            at_once = None if at_once is None else 2 * at_once

    def update(self, key: Key, expression: Expression) -> None:
        with translated():
            self._client.update_item(TableName=self.table, Key=keyed(key), **expression)

    def updated(self, key: Key, expression: Expression) -> Item:
        """Update the item, and return its new form."""
        with translated():
            answer: dict[str, Item] = self._client.update_item(
                TableName=self.table, Key=keyed(key), ReturnValues="ALL_NEW", **expression
            )
        return answer["Attributes"]

    def replaced(self, key: Key, expression: Expression) -> Item | None:
        """Update the item, and return its old form; None if there was none."""
        with translated():
            answer: dict[str, Item] = self._client.update_item(
                TableName=self.table, Key=keyed(key), ReturnValues="ALL_OLD", **expression
            )
        return answer.get("Attributes")

    def put(self, key: Key, item: Item, condition: Expression | None = None) -> None:
        with translated():
            self._client.put_item(TableName=self.table, Item=keyed(key, item), **(condition or {}))

    def delete(self, key: Key, condition: Expression | None = None) -> None:
        with translated():
            self._client.delete_item(TableName=self.table, Key=keyed(key), **(condition or {}))

    def transact(self, actions: Sequence[Action]) -> None:
        """Run all of the actions or none.

        botocore gives each call its own ClientRequestToken and keeps the token over its retries.
        Therefore a retry of a transaction that took effect gets the answer of the first try.
        """
        with translated():
            self._client.transact_write_items(TransactItems=list(actions))
