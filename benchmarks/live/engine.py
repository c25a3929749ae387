"""A table in memory for counting: the emulator's DynamoDB, with what decides a call's cost and
with a meter.

Queries and scans end a page after 1 MB, as DynamoDB does. The contract suite proves the rest of the
engine to be exact (`slotq/local/services/dynamodb.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, islice, takewhile
from typing import Any

from botocore.exceptions import ClientError

from benchmarks.dynamodb_units import Item, index_writes, item_size, read_units, table_units
from benchmarks.live.meter import Meter, Touched
from slotq.local.services import expressions
from slotq.local.services.dynamodb import InMemoryDynamo, Key
from slotq_core.adapters.dynamodb.layout.table import BY_STATE

PAGE = 1 << 20
"""The most bytes that one page of a Query or a Scan reads."""
FEW = 4096
"""How many items are asked for at first: most pages have fewer."""

_READS = ("batch_get_item", "get_item", "query", "scan")
_APART = {"Select", "FilterExpression", "ProjectionExpression"}
"""What takes effect after the items have been read, and changes no cost."""
Request = Mapping[str, Any]


class Engine(InMemoryDynamo):
    """One account's tables. Calls are counted by the meter."""

    def __init__(self) -> None:
        super().__init__()
        self.meter = Meter()

    def batch_write_item(self, **request: Any) -> dict[str, Any]:
        """Put many items at once. For filling a table: neither counted nor watched."""
        for table, requests in request["RequestItems"].items():
            for each in requests:
                item = each["PutRequest"]["Item"]
                self.tables[table].put(_key(item), item)
        return {"UnprocessedItems": {}}

    # --- reads

    def get_item(self, **request: Any) -> dict[str, Any]:
        def ask() -> tuple[dict[str, Any], Touched]:
            answer = super(Engine, self).get_item(**request)
            found = [answer["Item"]] if "Item" in answer else []
            return answer, [(_key(request["Key"]), _units(found, request))]

        return self._counted_read("GetItem", ask)

    def batch_get_item(self, **request: Any) -> dict[str, Any]:
        def ask() -> tuple[dict[str, Any], Touched]:
            answer = super(Engine, self).batch_get_item(**request)
            ((name, wanted),) = request["RequestItems"].items()
            found = {_key(item): [item] for item in answer["Responses"][name]}
            keys = map(_key, wanted["Keys"])
            return answer, [(key, _units(found.get(key, []), wanted)) for key in keys]

        return self._counted_read("BatchGetItem", ask)

    def query(self, **request: Any) -> dict[str, Any]:
        return self._pages("Query", super().query, request)

    def scan(self, **request: Any) -> dict[str, Any]:
        return self._pages("Scan", super().scan, request)

    def _pages(
        self, operation: str, ask: Callable[..., dict[str, Any]], request: Request
    ) -> dict[str, Any]:
        def page() -> tuple[dict[str, Any], Touched]:
            read = _page(ask, request)
            answer = ask(**{**request, "Limit": max(1, len(read))})
            key = (request.get("IndexName") or _partition(request), "")
            return answer, [(key, _units(read, request))]

        return self._counted_read(operation, page)

    def _counted_read(
        self, operation: str, ask: Callable[[], tuple[dict[str, Any], Touched]]
    ) -> dict[str, Any]:
        with self.meter.call(operation) as call, self._lock:
            answer, call.read = ask()
        return answer

    # --- writes

    def put_item(self, **request: Any) -> dict[str, Any]:
        return self._counted_write("PutItem", super().put_item, request, [request])

    def update_item(self, **request: Any) -> dict[str, Any]:
        return self._counted_write("UpdateItem", super().update_item, request, [request])

    def delete_item(self, **request: Any) -> dict[str, Any]:
        return self._counted_write("DeleteItem", super().delete_item, request, [request])

    def transact_write_items(self, **request: Any) -> dict[str, Any]:
        parts = [next(iter(each.values())) for each in request["TransactItems"]]
        write = super().transact_write_items
        return self._counted_write("TransactWriteItems", write, request, parts)

    def _counted_write(
        self,
        operation: str,
        write: Callable[..., dict[str, Any]],
        request: Request,
        parts: Sequence[Request],
    ) -> dict[str, Any]:
        """Count a write, also a refused one: its condition costs as much as its effect."""
        times = 2 if operation == "TransactWriteItems" else 1
        keys = [(each["TableName"], _key(each.get("Item") or each["Key"])) for each in parts]
        with self.meter.call(operation) as call, self._lock:
            before = [self._there(*key) for key in keys]
            try:
                return write(**request)
            except ClientError as error:
                call.refused = error.response["Error"]["Code"]
                raise
            finally:
                for (table, key), was in zip(keys, before, strict=True):
                    call.written += _written(key, was, self._there(table, key), times)

    def _there(self, table: str, key: Key) -> Item | None:
        return self.tables[table].items.get(key)


def _written(key: Key, was: Item | None, becomes: Item | None, times: int) -> Touched:
    """What one write costs in the table, and in the index's partitions."""
    own = [(key, float(times * table_units(was, becomes)))]
    return own + [
        ((BY_STATE, state), float(times * units)) for state, units in index_writes(was, becomes)
    ]


def _units(items: Sequence[Item], request: Request) -> float:
    size = sum(item_size(item) for item in items)
    return read_units(size, consistent=bool(request.get("ConsistentRead")))


def _bare(request: Request) -> dict[str, Any]:
    """The request for whole items, with the placeholders that it still uses."""
    used = expressions.placeholders(request.get("KeyConditionExpression") or "")
    bare = {name: value for name, value in request.items() if name not in _APART}
    for name in ("ExpressionAttributeNames", "ExpressionAttributeValues"):
        if name in bare:
            bare[name] = {key: value for key, value in bare[name].items() if key in used}
    return bare


def _page(ask: Callable[..., dict[str, Any]], request: Request) -> list[Item]:
    """The items that one page reads: no more than the limit, and no more than fit."""
    bare, count = _bare(request), FEW
    most = request.get("Limit", float("inf"))
    while True:
        items = ask(**{**bare, "Limit": min(count, most)})["Items"]
        read = _within_a_page(items)
        if len(read) < len(items) or len(items) < count:
            return read
        count *= 2


def _within_a_page(items: Sequence[Item]) -> list[Item]:
    """The items up to the one that fills a page."""
    sizes = accumulate(item_size(item) for item in items)
    return [*islice(items, 1 + sum(1 for _ in takewhile(PAGE.__gt__, sizes)))]


def _partition(request: Request) -> str:
    """The partition that a Query reads; empty for a Scan."""
    values = request.get("ExpressionAttributeValues", {})
    return str(values[":pk"]["S"]) if ":pk" in values else ""


def _key(item: Item) -> Key:
    return item["pk"]["S"], item["sk"]["S"]
