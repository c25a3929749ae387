"""The units that DynamoDB charges, by the sizes of the items.

Neither engine on this machine reports units as AWS bills them, so this module applies AWS's rules
("DynamoDB read and write operations" in its guide). A read unit covers 4 KB read, or twice that in
an eventually consistent read. A write unit covers 1 KB of the larger of the old and the new item; a
transaction counts twice. A write to an index costs the same, and two writes if the item moves
within the index. A write with a false condition still counts. Index writes of a transaction count
twice too, which AWS does not state clearly: at worst, the result is too high.
"""

from __future__ import annotations

from collections.abc import Mapping
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
