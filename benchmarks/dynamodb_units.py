"""The units that DynamoDB would charge for a client's calls, by the sizes of the items.

Neither engine on this machine reports units as AWS bills them, so this module applies AWS's rules
("DynamoDB read and write operations" in its guide). A read unit covers 4 KB read, or twice that in
an eventually consistent read. A write unit covers 1 KB of the larger of the old and the new item; a
transaction counts twice. A write to an index costs the same, and two writes if the item moves
within the index. A write with a false condition still counts. Index writes of a transaction count
twice too, which AWS does not state clearly: at worst, the result is too high.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from slotq_core.adapters.dynamodb.layout.table import table_definition

READ, WRITTEN = 4096, 1024
"""Bytes per unit."""
Item = Mapping[str, Any]
_INDEX_KEYS = [
    key["AttributeName"]
    for index in table_definition("any")["GlobalSecondaryIndexes"]
    for key in index["KeySchema"]
]
_WRITES = ("PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems")


def item_size(item: Item) -> int:
    """Bytes as DynamoDB counts them: names and values; 3 for a list or map, 1 for each member."""
    return sum(len(name.encode()) + _size(value) for name, value in item.items())


def _size(value: Mapping[str, Any]) -> int:
    ((kind, content),) = value.items()
    if kind == "M":
        return 3 + len(content) + item_size(content)
    if kind == "L":
        return 3 + len(content) + sum(_size(each) for each in content)
    if kind == "N":
        digits: str = content.lstrip("-")
        return ceil(len(digits) / 2) + 1 + int(digits != content)
    if kind in {"BOOL", "NULL"}:
        return 1
    plain: bytes = content.encode() if kind == "S" else content
    return len(plain)


def read_units(size: int, *, consistent: bool) -> float:
    return max(1, ceil(size / READ)) * (1.0 if consistent else 0.5)


def write_units(before: Item | None, after: Item | None) -> int:
    """The units of one write to the table and its index."""
    return table_units(before, after) + sum(units for _, units in index_writes(before, after))


def table_units(before: Item | None, after: Item | None) -> int:
    """The units of one write to the table alone."""
    size = max(item_size(before or {}), item_size(after or {}))
    return max(1, ceil(size / WRITTEN))


def index_writes(before: Item | None, after: Item | None) -> list[tuple[str, int]]:
    """What one write costs in the index: its partitions (a job's state), each with the units."""
    was, becomes = _indexed(before), _indexed(after)
    if was == becomes:
        return []
    both = [each for each in (was, becomes) if each]
    if len(both) == 2 and all(both[0][key] == both[1][key] for key in _INDEX_KEYS):
        both = [max(both, key=item_size)]
    return [(each["jobState"]["S"], ceil(item_size(each) / WRITTEN)) for each in both]


def _indexed(item: Item | None) -> Item | None:
    """The item in the index: the whole item if it has the index's keys, else None."""
    return item if item and all(key in item for key in _INDEX_KEYS) else None


@dataclass
class Meter:
    """The usage of a client."""

    calls: Counter[str] = field(default_factory=Counter)
    read_units: float = 0.0
    write_units: float = 0.0


@contextmanager
def metered(client: Any, aside: Any) -> Iterator[Meter]:
    """Count the calls of `client` during the context. `aside` is a second client of the same
    tables, which reads the items that the calls touch."""
    watch = _Watch(Meter(), aside)
    events = client.meta.events
    events.register("provide-client-params.dynamodb.*", watch.before)
    events.register("after-call.dynamodb.*", watch.after)
    try:
        yield watch.meter
    finally:
        events.unregister("provide-client-params.dynamodb.*", watch.before)
        events.unregister("after-call.dynamodb.*", watch.after)


class _Watch:
    """Watches one call at a time, as the handler makes them."""

    def __init__(self, meter: Meter, aside: Any) -> None:
        self.meter, self._aside = meter, aside
        self._request: dict[str, Any] = {}
        self._were: list[Item | None] = []

    def before(self, params: dict[str, Any], model: Any, **_: Any) -> None:
        self._request = params
        if model.name in _WRITES:
            self._were = [self._there(*touched) for touched in _touched(params)]

    def after(self, parsed: dict[str, Any], model: Any, **_: Any) -> None:
        self.meter.calls[model.name] += 1
        if model.name in _WRITES:
            self._wrote(2 if model.name == "TransactWriteItems" else 1)
        else:
            self._read(model.name, parsed)

    def _wrote(self, times: int) -> None:
        are = [self._there(*touched) for touched in _touched(self._request)]
        for before, after in zip(self._were, are, strict=True):
            self.meter.write_units += times * write_units(before, after)

    def _read(self, operation: str, parsed: dict[str, Any]) -> None:
        consistent = bool(self._request.get("ConsistentRead"))
        items = [parsed["Item"]] if "Item" in parsed else parsed.get("Items", [])
        whole = {"Select", "FilterExpression", "ProjectionExpression"}
        partly = parsed.get("ScannedCount") != len(items) or "ProjectionExpression" in self._request
        if operation in {"Query", "Scan"} and partly:
            again = {key: value for key, value in self._request.items() if key not in whole}
            items = getattr(self._aside, operation.lower())(**again)["Items"]
        size = sum(item_size(item) for item in items)
        self.meter.read_units += read_units(size, consistent=consistent)

    def _there(self, table: str, key: Mapping[str, Any]) -> Item | None:
        found = self._aside.get_item(TableName=table, Key=key, ConsistentRead=True)
        item: Item | None = found.get("Item")
        return item


def _touched(request: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    parts = request.get("TransactItems")
    if parts is None:
        return [(request["TableName"], _key(request))]
    actions = [next(iter(part.values())) for part in parts]
    return [(action["TableName"], _key(action)) for action in actions]


def _key(action: Mapping[str, Any]) -> Mapping[str, Any]:
    if "Key" in action:
        key: Mapping[str, Any] = action["Key"]
        return key
    return {name: action["Item"][name] for name in ("pk", "sk")}
