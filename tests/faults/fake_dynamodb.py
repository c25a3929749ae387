"""DynamoDB as a fake low-level client: exact in what the store relies on, quick enough for
hundreds of thousands of calls.

What it does that moto does not: a transaction takes time. While one is under way (`during` lets
others work meanwhile) its items belong to it: another transaction that touches one of them is
cancelled with TransactionConflict, a single write is refused with TransactionConflictException, a
GetItem still sees what was, and a Query or a BatchGetItem may see half of it, as DynamoDB's
isolation levels allow. A BatchGetItem answers in another order than it was asked.

The contract suite runs against it as it does against the real engine.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, insort
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from botocore.exceptions import ClientError

from tests.faults import expressions
from tests.faults.expressions import Item, NotUnderstood

Key = tuple[str, str]
Change = tuple[Key, Item | None, Item | None]
"""Key, item before, item after."""
Request = Mapping[str, Any]

MAX_ACTIONS = 100
MAX_KEYS = 100
MAX_ITEM = 400 * 1024
_ON_REFUSAL = "ReturnValuesOnConditionCheckFailure"


def _nothing() -> None: ...


class Table:
    """Items by partition, sorted by their sort keys."""

    def __init__(self, definition: Request) -> None:
        self.indexes = {
            index["IndexName"]: tuple(part["AttributeName"] for part in index["KeySchema"])
            for index in definition.get("GlobalSecondaryIndexes", ())
        }
        self.items: dict[Key, Item] = {}
        self._sort_keys: dict[str, list[str]] = {}

    def put(self, key: Key, item: Item | None) -> None:
        keys = self._sort_keys.setdefault(key[0], [])
        if item is None:
            if self.items.pop(key, None) is not None:
                del keys[bisect_left(keys, key[1])]
            return
        if key not in self.items:
            insort(keys, key[1])
        self.items[key] = item

    def copy(self) -> Table:
        other = Table({})
        other.indexes, other.items = self.indexes, dict(self.items)
        other._sort_keys = {pk: list(keys) for pk, keys in self._sort_keys.items()}
        return other

    def partition(self, pk: str) -> list[Item]:
        return [self.items[pk, sk] for sk in self._sort_keys.get(pk, ())]

    def index(self, name: str) -> list[Item]:
        first, second = self.indexes[name]
        there = [item for item in self.items.values() if first in item and second in item]
        return sorted(there, key=lambda item: (item[second]["S"], item["pk"]["S"]))


class FakeDynamo:
    """One account's tables, with the methods of boto3's low-level client."""

    def __init__(self) -> None:
        self.tables: dict[str, Table] = {}
        self.on_write: Callable[[Sequence[Change]], None] = lambda _: None
        """Called with each committed write, once per transaction."""
        self.now: Callable[[], int] = lambda: 0
        """The time (ms)."""
        self.lag = 0
        """The lag of inconsistent reads (ms): they see the table as it was."""
        self._recent: list[tuple[int, str, Key, Item | None]] = []
        """The writes within the lag: time, key, and the item before."""
        self._in_flight: dict[tuple[str, Key], Item | None] = {}
        """The items of transactions in flight, as before them."""
        self._lock = threading.RLock()

    # --- tables

    def create_table(self, **request: Any) -> dict[str, Any]:
        self.tables[request["TableName"]] = Table(request)
        return {}

    def delete_table(self, **request: Any) -> dict[str, Any]:
        del self.tables[request["TableName"]]
        return {}

    def forget_what_was(self) -> None:
        """Let inconsistent reads see each table as it is now."""
        self._recent.clear()

    # --- reads

    def get_item(self, **request: Any) -> dict[str, Any]:
        with self._lock:
            table, key = self._table(request, "GetItem"), _key(request["Key"])
            busy = (request["TableName"], key)
            held = self._in_flight.get(busy, table.items.get(key))
            return {} if held is None else {"Item": dict(held)}

    def batch_get_item(self, **request: Any) -> dict[str, Any]:
        operation = "BatchGetItem"
        with self._lock:
            ((name, wanted),) = request["RequestItems"].items()
            keys = [_key(key) for key in wanted["Keys"]]
            if not 1 <= len(keys) <= MAX_KEYS or len({*keys}) < len(keys):
                raise _error(operation, "ValidationException", f"{len(keys)} keys, or one twice")
            table = self._table({"TableName": name}, operation)
            items = [dict(table.items[key]) for key in reversed(keys) if key in table.items]
            return {"Responses": {name: items}, "UnprocessedKeys": {}}

    def query(self, **request: Any) -> dict[str, Any]:
        with self._lock, _understood("Query"):
            _check_placeholders(request, "KeyConditionExpression", "FilterExpression")
            table = self._table(request, "Query")
            index = request.get("IndexName")
            if index and request.get("ConsistentRead"):
                raise _error("Query", "ValidationException", "an index is never consistent")
            if self._recent and not request.get("ConsistentRead"):
                table = self._as_it_was(request["TableName"])
            if index:
                candidates = table.index(index)
            else:
                candidates = table.partition(request["ExpressionAttributeValues"][":pk"]["S"])
            wanted = expressions.condition(request["KeyConditionExpression"])
            found = [item for item in candidates if _holds(wanted, item, request)]
            return _page(found, request)

    def scan(self, **request: Any) -> dict[str, Any]:
        with self._lock, _understood("Scan"):
            _check_placeholders(request, "FilterExpression")
            table = self._table(request, "Scan")
            return _page([table.items[key] for key in sorted(table.items)], request)

    # --- writes

    def put_item(self, **request: Any) -> dict[str, Any]:
        return self._single("PutItem", request)

    def update_item(self, **request: Any) -> dict[str, Any]:
        return self._single("UpdateItem", request)

    def delete_item(self, **request: Any) -> dict[str, Any]:
        return self._single("DeleteItem", request)

    def transact_write_items(
        self, *, during: Callable[[], None] = _nothing, **request: Any
    ) -> dict[str, Any]:
        """Call `during` while the transaction is in flight: once before its effect, and once while
        it becomes visible."""
        actions = [next(iter(each.items())) for each in request["TransactItems"]]
        with self._lock:
            keys = self._begin(actions)
        try:
            during()
            with self._lock:
                changes = self._decide(actions)
                written = [
                    (each["TableName"], change)
                    for (kind, each), change in zip(actions, changes, strict=True)
                    if kind != "ConditionCheck"
                ]
                middle = len(written) // 2
                self._write(written[:middle])
            if during is not _nothing:
                during()
            with self._lock:
                self._write(written[middle:])
        finally:
            for key in keys:
                self._in_flight.pop(key, None)
        self.on_write([change for _, change in written])
        return {}

    def _write(self, written: Sequence[tuple[str, Change]]) -> None:
        for name, (key, before, after) in written:
            self.tables[name].put(key, after)
            if self.lag:
                self._recent.append((self.now(), name, key, before))

    def _as_it_was(self, name: str) -> Table:
        since = self.now() - self.lag
        self._recent = [each for each in self._recent if each[0] > since]
        there = self.tables[name]
        if not self._recent:
            return there
        old = there.copy()
        for _, where, key, before in reversed(self._recent):
            if where == name:
                old.put(key, before)
        return old

    def _single(self, operation: str, request: Request) -> dict[str, Any]:
        kind = operation.removesuffix("Item")
        with self._lock:
            table, key = self._table(request, operation), _action_key(kind, request)
            if (request["TableName"], key) in self._in_flight:
                raise _error(
                    operation, "TransactionConflictException", "a transaction is under way"
                )
            before = table.items.get(key)
            refused, after = _outcome(operation, kind, before, request)
            if refused:
                answer = _error(operation, "ConditionalCheckFailedException", "it does not hold")
                if before and request.get(_ON_REFUSAL) == "ALL_OLD":
                    answer.response["Item"] = dict(before)
                raise answer
            self._write([(request["TableName"], (key, before, after))])
        self.on_write([(key, before, after)])
        return _returned(request.get("ReturnValues", "NONE"), before, after)

    def _begin(self, actions: Sequence[tuple[str, Request]]) -> list[tuple[str, Key]]:
        """Refuse what DynamoDB refuses at once; otherwise the items belong to the transaction."""
        operation = "TransactWriteItems"
        if not 1 <= len(actions) <= MAX_ACTIONS:
            raise _error(operation, "ValidationException", f"{len(actions)} actions")
        keys = [(each["TableName"], _action_key(kind, each)) for kind, each in actions]
        if len(set(keys)) < len(keys):
            raise _error(operation, "ValidationException", "two actions on one item")
        for name, _ in keys:
            self._table({"TableName": name}, operation)
        busy = ["TransactionConflict" if key in self._in_flight else "None" for key in keys]
        if "TransactionConflict" in busy:
            raise _cancelled([{"Code": code} for code in busy])
        for name, key in keys:
            self._in_flight[name, key] = self.tables[name].items.get(key)
        return keys

    def _decide(self, actions: Sequence[tuple[str, Request]]) -> list[Change]:
        changes: list[Change] = []
        reasons: list[dict[str, Any]] = []
        for kind, each in actions:
            key = _action_key(kind, each)
            before = self.tables[each["TableName"]].items.get(key)
            refused, after = _outcome("TransactWriteItems", kind, before, each)
            reasons.append({"Code": "ConditionalCheckFailed" if refused else "None"})
            if refused and before and each.get(_ON_REFUSAL) == "ALL_OLD":
                reasons[-1]["Item"] = dict(before)
            changes.append((key, before, after))
        if any(reason["Code"] == "ConditionalCheckFailed" for reason in reasons):
            raise _cancelled(reasons)
        return changes

    def _table(self, request: Request, operation: str) -> Table:
        table = self.tables.get(request["TableName"])
        if table is None:
            raise _error(operation, "ResourceNotFoundException", "no such table")
        return table


def _outcome(
    operation: str, kind: str, before: Item | None, request: Request
) -> tuple[bool, Item | None]:
    """Whether the condition refuses, and the item after."""
    with _understood(operation):
        _check_placeholders(request, "ConditionExpression", "UpdateExpression")
        text = request.get("ConditionExpression")
        refused = bool(text) and not _holds(expressions.condition(text), before or {}, request)
        return refused, before if refused else _after(kind, before, request)


def _after(kind: str, before: Item | None, request: Request) -> Item | None:
    match kind:
        case "Put":
            return dict(request["Item"])
        case "Delete":
            return None
        case "ConditionCheck":
            return before
    item = dict(before or request["Key"])
    if text := request.get("UpdateExpression"):
        run = expressions.update(text)
        run(item, *_placeholders(request))
    return item


def _returned(wanted: str, before: Item | None, after: Item | None) -> dict[str, Any]:
    match wanted:
        case "ALL_NEW":
            return {"Attributes": dict(after or {})}
        case "UPDATED_NEW":
            old = before or {}
            new = {k: v for k, v in (after or {}).items() if old.get(k) != v}
            return {"Attributes": new}
        case "ALL_OLD":
            return {"Attributes": dict(before)} if before else {}
        case "NONE":
            return {}
    raise NotUnderstood(f"ReturnValues={wanted}")


def _page(found: Sequence[Item], request: Request) -> dict[str, Any]:
    if request.get("ScanIndexForward") is False:
        found = found[::-1]
    if start := request.get("ExclusiveStartKey"):
        keys = [_key(item) for item in found]
        found = (
            found[keys.index(_key(start)) + 1 :]
            if _key(start) in keys
            else [item for item in found if _key(item) > _key(start)]
        )
    limit = request.get("Limit")
    page = found if limit is None else found[:limit]
    answer: dict[str, Any] = {"ScannedCount": len(page)}
    if len(page) < len(found):
        last = page[-1]
        answer["LastEvaluatedKey"] = {"pk": last["pk"], "sk": last["sk"]}
    if text := request.get("FilterExpression"):
        wanted = expressions.condition(text)
        page = [item for item in page if _holds(wanted, item, request)]
    answer["Count"] = len(page)
    if request.get("Select") != "COUNT":
        answer["Items"] = [_projected(item, request) for item in page]
    return answer


def _projected(item: Item, request: Request) -> dict[str, Any]:
    text = request.get("ProjectionExpression")
    if not text:
        return dict(item)
    names = request.get("ExpressionAttributeNames", {})
    wanted = {names.get(name.strip(), name.strip()) for name in text.split(",")}
    return {name: value for name, value in item.items() if name in wanted}


def _holds(wanted: expressions.Condition, item: Item, request: Request) -> bool:
    return wanted(item, *_placeholders(request))


def _placeholders(request: Request) -> tuple[Mapping[str, str], Mapping[str, Any]]:
    names: Mapping[str, str] = request.get("ExpressionAttributeNames", {})
    return names, request.get("ExpressionAttributeValues", {})


def _check_placeholders(request: Request, *texts: str) -> None:
    """Each placeholder is used, and each used one exists."""
    asked = [*texts, "ProjectionExpression"]
    used = {each for name in asked for each in expressions.placeholders(request.get(name) or "")}
    names, values = _placeholders(request)
    if used != {*names, *values}:
        raise NotUnderstood(f"placeholders: {sorted(used ^ {*names, *values})}")


class _understood:  # noqa: N801 - reads as a statement
    """Turns an expression that is not understood into DynamoDB's error."""

    def __init__(self, operation: str) -> None:
        self._operation = operation

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, NotUnderstood):
            raise _error(self._operation, "ValidationException", str(error)) from error


def _action_key(kind: str, request: Request) -> Key:
    return _key(request["Item" if kind == "Put" else "Key"])


def _key(item: Mapping[str, Any]) -> Key:
    return item["pk"]["S"], item["sk"]["S"]


def _cancelled(reasons: Sequence[Mapping[str, Any]]) -> ClientError:
    codes = ", ".join(reason["Code"] for reason in reasons)
    error = _error(
        "TransactWriteItems",
        "TransactionCanceledException",
        f"Transaction cancelled, please refer cancellation reasons [{codes}]",
    )
    error.response["CancellationReasons"] = list(reasons)
    return error


def _error(operation: str, code: str, message: str) -> ClientError:
    said = {
        "Error": {"Code": code, "Message": message},
        "ResponseMetadata": {"HTTPStatusCode": 400},
    }
    return ClientError(said, operation)
