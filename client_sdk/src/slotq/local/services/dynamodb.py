"""DynamoDB in memory, with the methods of boto3's low-level client.

Exact in what the queue relies on: conditions, transactions that take effect whole or not at all,
the order of sort keys, pages of 1 MB, the sizes of items and transactions. The contract suite runs
on it as on Amazon's DynamoDB Local. The keys of every table are `pk` and `sk`, both texts.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any, NoReturn

from botocore.exceptions import ClientError

from slotq.local.services import expressions
from slotq.local.services.expressions import Item, NotUnderstood, Place, WrongOperand

Key = tuple[str, str]
Change = tuple[Key, Item | None, Item | None]
"""Key, item before, item after."""
Written = tuple[str, Change]
"""Table and change."""
Request = Mapping[str, Any]
Action = tuple[str, Request]
"""Kind (Put, Update, Delete, ConditionCheck) and parameters."""

MAX_ACTIONS, MAX_READS, MAX_WRITES = 100, 100, 25
"""Of a transaction, a BatchGetItem, a BatchWriteItem."""
MAX_ITEM, MAX_TRANSACTION, PAGE, MAX_BATCH = 400 << 10, 4 << 20, 1 << 20, 16 << 20
"""Bytes of an item, a transaction, a page of a Query or Scan, a BatchGetItem's answer."""
_KEYS = ("pk", "sk")
_ON_REFUSAL = "ReturnValuesOnConditionCheckFailure"
_TRANSACTION = "TransactWriteItems"


class Table:
    """Items by key, in the order of their sort keys in each partition and index."""

    def __init__(self, definition: Request) -> None:
        self.definition = definition
        self.indexes: dict[str, Key] = {
            index["IndexName"]: tuple(part["AttributeName"] for part in index["KeySchema"])
            for index in definition.get("GlobalSecondaryIndexes", ())
        }
        self.items: dict[Key, Item] = {}
        self.partitions: dict[str, list[Place]] = {}
        self._indexed: dict[str, dict[str, list[Place]]] = {}
        """The indexes' partitions, made when first read."""
        self.sizes: dict[Key, int] = {}
        """Bytes of the items that pages have had."""

    def put(self, key: Key, item: Item | None) -> None:
        """Replace the item, or remove it."""
        before = self.items.get(key)
        if item is not None:
            self.items[key] = item
            if before is None:
                insort(self.partitions.setdefault(key[0], []), (key[1], *key))
        elif before is not None:
            del self.items[key]
            _remove(self.partitions, key[0], (key[1], *key))
        self.sizes.pop(key, None)
        for name, partitions in self._indexed.items():
            was, becomes = self._place(name, key, before), self._place(name, key, item)
            if was != becomes:
                if was is not None:
                    _remove(partitions, *was)
                if becomes is not None:
                    insort(partitions.setdefault(becomes[0], []), becomes[1])

    def _place(self, index: str, key: Key, item: Item | None) -> tuple[str, Place] | None:
        """The item's partition and place in the index."""
        first, second = self.indexes[index]
        if item is None or first not in item or second not in item:
            return None
        return item[first]["S"], (item[second]["S"], *key)

    def copy(self) -> Table:
        other = Table(self.definition)
        other.indexes, other.items = self.indexes, dict(self.items)
        other.partitions = {pk: list(places) for pk, places in self.partitions.items()}
        other.sizes = dict(self.sizes)
        return other

    def keys_of(self, index: str | None) -> Key:
        return _KEYS if index is None else self.indexes[index]

    def places(self, index: str | None, partition: str) -> Sequence[Place]:
        if index is None:
            return self.partitions.get(partition, ())
        if index not in self._indexed:
            partitions = self._indexed[index] = {}
            for key, item in self.items.items():
                if (place := self._place(index, key, item)) is not None:
                    partitions.setdefault(place[0], []).append(place[1])
            for found in partitions.values():
                found.sort()
        return self._indexed[index].get(partition, ())

    def from_key(self, start: Key) -> Iterator[Key]:
        """The keys after this one, in order."""
        for pk in sorted(pk for pk in self.partitions if pk >= start[0]):
            places = self.partitions[pk]
            begin = bisect_right(places, (start[1], *start)) if pk == start[0] else 0
            yield from ((pk, place[2]) for place in islice(places, begin, None))

    def size(self, key: Key) -> int:
        if key not in self.sizes:
            self.sizes[key] = item_size(self.items[key])
        return self.sizes[key]


def _remove(partitions: dict[str, list[Place]], partition: str, place: Place) -> None:
    places = partitions[partition]
    del places[bisect_left(places, place)]
    if not places:
        del partitions[partition]


class InMemoryDynamo:
    """An account's tables."""

    def __init__(self) -> None:
        self.tables: dict[str, Table] = {}
        self.on_write: Callable[[Sequence[Change]], None] = lambda _: None
        """Called with each committed write, once per transaction, in order."""
        self._lock = threading.RLock()

    # --- tables

    def create_table(self, **request: Any) -> dict[str, Any]:
        self.tables[request["TableName"]] = Table(request)
        return {}

    def delete_table(self, **request: Any) -> dict[str, Any]:
        del self.tables[request["TableName"]]
        return {}

    def describe_table(self, **request: Any) -> dict[str, Any]:
        table = self._table(request["TableName"], "DescribeTable")
        shown = {"TableStatus": "ACTIVE", "ItemCount": len(table.items), "TableSizeBytes": 0}
        created = {"CreationDateTime": datetime.fromtimestamp(0, UTC)}
        return {"Table": {**table.definition, **shown, **created}}

    # --- reads

    def get_item(self, **request: Any) -> dict[str, Any]:
        with self._lock, _understood("GetItem"):
            _check_placeholders(request)
            found = self._item(request["TableName"], request["Key"], "GetItem")
            return {} if found is None else {"Item": _projected(found, request)}

    def batch_get_item(self, **request: Any) -> dict[str, Any]:
        """Answers in another order than it was asked: DynamoDB promises none."""
        operation, parts = "BatchGetItem", request["RequestItems"]
        asked = [(name, key) for name, part in parts.items() for key in part["Keys"]]
        _check_number(operation, asked, MAX_READS)
        if len({(name, key_of(key, operation)) for name, key in asked}) < len(asked):
            _refuse(operation, "Provided list of item keys contains duplicates")
        answers: dict[str, list[Item]] = {name: [] for name in parts}
        left: dict[str, Any] = {}
        room = MAX_BATCH
        with self._lock:
            for name, key in reversed(asked):
                found = self._item(name, key, operation)
                room -= item_size(found or {})
                if room < 0:
                    left.setdefault(name, {**parts[name], "Keys": []})["Keys"].append(key)
                elif found is not None:
                    answers[name].append(_projected(found, parts[name]))
        return {"Responses": answers, "UnprocessedKeys": left}

    def query(self, **request: Any) -> dict[str, Any]:
        with self._lock, _understood("Query"):
            _check_placeholders(request, "KeyConditionExpression", "FilterExpression")
            table, index = self._read_table(request, "Query"), request.get("IndexName")
            if index and index not in table.indexes:
                _refuse("Query", f"the table has no index {index}")
            if index and request.get("ConsistentRead"):
                _refuse("Query", "Consistent reads are not supported on global secondary indexes")
            asked = expressions.key_condition(request["KeyConditionExpression"])
            names = table.keys_of(index)
            wanted = asked(names, *_placeholders(request))
            places = table.places(index, wanted.partition)
            begin, end = wanted.span(places)
            forward = request.get("ScanIndexForward") is not False
            if start := request.get("ExclusiveStartKey"):
                key = key_of(start, "Query")
                place = (start[names[1]]["S"], *key)
                if forward:
                    begin = max(begin, bisect_right(places, place))
                else:
                    end = min(end, bisect_left(places, place))
            positions = range(begin, end) if forward else range(end - 1, begin - 1, -1)
            keys = (places[position][1:] for position in positions)
            return _page(table, keys, request, names if index else ())

    def scan(self, **request: Any) -> dict[str, Any]:
        with self._lock, _understood("Scan"):
            _check_placeholders(request, "FilterExpression")
            start = request.get("ExclusiveStartKey")
            table = self._read_table(request, "Scan")
            keys = table.from_key(("", "") if start is None else key_of(start, "Scan"))
            return _page(table, keys, request)

    def _read_table(self, request: Request, operation: str) -> Table:
        """The table as a Query or Scan sees it."""
        return self._table(request["TableName"], operation)

    def _item(self, table: str, key: Request, operation: str) -> Item | None:
        """The item as a read of its key sees it."""
        return self._table(table, operation).items.get(key_of(key, operation))

    # --- writes

    def put_item(self, **request: Any) -> dict[str, Any]:
        return self._single("PutItem", request)

    def update_item(self, **request: Any) -> dict[str, Any]:
        return self._single("UpdateItem", request)

    def delete_item(self, **request: Any) -> dict[str, Any]:
        return self._single("DeleteItem", request)

    def batch_write_item(self, **request: Any) -> dict[str, Any]:
        requests = [(name, one) for name, part in request["RequestItems"].items() for one in part]
        _check_number("BatchWriteItem", requests, MAX_WRITES)
        with self._lock:
            for name, one in requests:
                if "PutRequest" in one:
                    self.put_item(TableName=name, **one["PutRequest"])
                else:
                    self.delete_item(TableName=name, **one["DeleteRequest"])
        return {"UnprocessedItems": {}}

    def transact_write_items(self, **request: Any) -> dict[str, Any]:
        actions = self._actions(request)
        with self._lock:
            self._write(self._decided(actions))
        return {}

    def _write(self, written: Sequence[Written]) -> None:
        self._put(written)
        self.on_write([change for _, change in written])

    def _put(self, written: Sequence[Written]) -> None:
        for name, (key, _, after) in written:
            self.tables[name].put(key, after)

    def _single(self, operation: str, request: Request) -> dict[str, Any]:
        kind, name = operation.removesuffix("Item"), request["TableName"]
        with self._lock:
            table, key = self._table(name, operation), action_key((kind, request), operation)
            before = table.items.get(key)
            try:
                refused, after = _outcome(kind, before, request, operation)
            except WrongOperand as wrong:
                _refuse(operation, str(wrong))
            if refused:
                answer = error(operation, "ConditionalCheckFailedException", "it does not hold")
                if before and request.get(_ON_REFUSAL) == "ALL_OLD":
                    answer.response["Item"] = dict(before)
                raise answer
            self._write([(name, (key, before, after))])
        return _returned(request.get("ReturnValues", "NONE"), before, after)

    def _actions(self, request: Request) -> list[Action]:
        """The actions of a transaction. Refuses what DynamoDB refuses without a look at items."""
        actions = [next(iter(action.items())) for action in request["TransactItems"]]
        _check_number(_TRANSACTION, actions, MAX_ACTIONS)
        keys = {(action[1]["TableName"], action_key(action, _TRANSACTION)) for action in actions}
        if len(keys) < len(actions):
            _refuse(
                _TRANSACTION, "Transaction request cannot include multiple operations on one item"
            )
        for name, _ in keys:
            self._table(name, _TRANSACTION)
        return actions

    def _decided(self, actions: Sequence[Action]) -> list[Written]:
        """What the transaction writes. Raises ClientError if an action is refused."""
        written: list[Written] = []
        reasons: list[dict[str, Any]] = []
        size = 0
        for kind, asked in actions:
            name, key = asked["TableName"], action_key((kind, asked), _TRANSACTION)
            before = self.tables[name].items.get(key)
            try:
                refused, after = _outcome(kind, before, asked, _TRANSACTION)
            except WrongOperand as wrong:
                reasons.append({"Code": "ValidationError", "Message": str(wrong)})
                continue
            reasons.append({"Code": "ConditionalCheckFailed" if refused else "None"})
            if refused and before and asked.get(_ON_REFUSAL) == "ALL_OLD":
                reasons[-1]["Item"] = dict(before)
            if kind != "ConditionCheck":
                written.append((name, (key, before, after)))
                size += item_size(after or {})
        if any(reason["Code"] != "None" for reason in reasons):
            raise cancelled(reasons)
        if size > MAX_TRANSACTION:
            _refuse(_TRANSACTION, "Collection of items in the transaction exceeds 4 MB")
        return written

    def _table(self, name: str, operation: str) -> Table:
        table = self.tables.get(name)
        if table is None:
            raise error(operation, "ResourceNotFoundException", f"no table {name}")
        return table


def _outcome(
    kind: str, before: Item | None, request: Request, operation: str
) -> tuple[bool, Item | None]:
    """Whether the condition refuses, and the item after. Raises WrongOperand."""
    with _understood(operation):
        _check_placeholders(request, "ConditionExpression", "UpdateExpression")
        text = request.get("ConditionExpression")
        if text and not _holds(expressions.condition(text), before or {}, request):
            return True, before
        after = _after(kind, before, request)
    if after is not before and item_size(after or {}) > MAX_ITEM:
        raise WrongOperand("Item size has exceeded the maximum allowed size")
    return False, after


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
        expressions.update(text)(item, *_placeholders(request))
    return item


def _returned(wanted: str, before: Item | None, after: Item | None) -> dict[str, Any]:
    old, new = dict(before or {}), dict(after or {})
    match wanted:
        case "ALL_NEW":
            return {"Attributes": new}
        case "UPDATED_NEW":
            return {"Attributes": {k: v for k, v in new.items() if old.get(k) != v}}
        case "ALL_OLD":
            return {"Attributes": old} if old else {}
    return {}


def _page(
    table: Table, keys: Iterator[Key], request: Request, index_keys: Sequence[str] = ()
) -> dict[str, Any]:
    """The next items, up to the request's limit and a page's size."""
    limit, size = request.get("Limit"), 0
    found: list[Item] = []
    last: Item | None = None
    for key in keys:
        if found and (len(found) == limit or size >= PAGE):
            last = found[-1]
            break
        found.append(table.items[key])
        size += table.size(key)
    answer: dict[str, Any] = {"ScannedCount": len(found)}
    if last is not None:
        answer["LastEvaluatedKey"] = {name: last[name] for name in (*_KEYS, *index_keys)}
    if text := request.get("FilterExpression"):
        wanted = expressions.condition(text)
        found = [item for item in found if _holds(wanted, item, request)]
    answer["Count"] = len(found)
    if request.get("Select") != "COUNT":
        answer["Items"] = [_projected(item, request) for item in found]
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
    """Each placeholder is used, and each used one exists. Raises NotUnderstood."""
    asked = [*texts, "ProjectionExpression"]
    used = {name for text in asked for name in expressions.placeholders(request.get(text) or "")}
    names, values = _placeholders(request)
    if used != {*names, *values}:
        raise NotUnderstood(f"placeholders: {sorted(used ^ {*names, *values})}")


def _check_number(operation: str, requests: Sequence[object], most: int) -> None:
    if not 1 <= len(requests) <= most:
        _refuse(operation, f"1 to {most} members are allowed, not {len(requests)}")


def item_size(item: Item) -> int:
    """Bytes as DynamoDB counts them: names and values; 3 for a list or map, 1 for each member."""
    return sum(_text_size(name) + _size(value) for name, value in item.items())


def _size(value: Mapping[str, Any]) -> int:
    ((kind, content),) = value.items()
    match kind:
        case "S":
            return _text_size(content)
        case "N":
            digits = content.lstrip("-")
            return (len(digits) + 1) // 2 + 1 + int(digits != content)
        case "M":
            return 3 + len(content) + item_size(content)
        case "L":
            return 3 + len(content) + sum(map(_size, content))
        case "BOOL" | "NULL":
            return 1
    return len(content) if kind == "B" else sum(len(str(member)) for member in content)


def _text_size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


class _understood:  # noqa: N801 - reads as a statement
    """Turns an expression that is not understood into DynamoDB's error."""

    def __init__(self, operation: str) -> None:
        self._operation = operation

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, NotUnderstood):
            _refuse(self._operation, str(error))


def action_key(action: Action, operation: str = _TRANSACTION) -> Key:
    kind, request = action
    return key_of(request["Item" if kind == "Put" else "Key"], operation)


def key_of(item: Mapping[str, Any], operation: str = _TRANSACTION) -> Key:
    try:
        key: Key = item["pk"]["S"], item["sk"]["S"]
    except (KeyError, TypeError):
        key = "", ""
    if not all(key):
        _refuse(operation, "the keys pk and sk must be there, as texts that are not empty")
    return key


def cancelled(reasons: Sequence[Mapping[str, Any]]) -> ClientError:
    codes = ", ".join(reason["Code"] for reason in reasons)
    message = f"Transaction cancelled, please refer cancellation reasons [{codes}]"
    made = error(_TRANSACTION, "TransactionCanceledException", message)
    made.response["CancellationReasons"] = list(reasons)
    return made


def _refuse(operation: str, message: str) -> NoReturn:
    raise error(operation, "ValidationException", message)


def error(operation: str, code: str, message: str) -> ClientError:
    said = {
        "Error": {"Code": code, "Message": message},
        "ResponseMetadata": {"HTTPStatusCode": 400},
    }
    return ClientError(said, operation)
