"""Decide whether an item is readable. Unreadable items are named and skipped; they stop nothing
else.

A newer release, a person or a bug may have written an item. A copy of a job is valid only at a key
where its job requires a copy, so a left-over copy counts as unreadable.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TypeVar

from slotq_core.adapters.dynamodb.layout import table
from slotq_core.adapters.dynamodb.layout.items import (
    MOST_COUNTED,
    copies_of,
    job_attribute,
    job_of,
    jobs_on,
    node_of,
    pool_of,
    room_in,
)
from slotq_core.adapters.dynamodb.layout.records import Item, Value, whole
from slotq_core.model.jobs import Job
from slotq_core.model.nodes import Node
from slotq_core.model.pools import Pool
from slotq_core.policy.lines import Line
from slotq_core.ports.stored import Poison

T = TypeVar("T")

UNREADABLE = (KeyError, ValueError, TypeError, AttributeError, IndexError, ArithmeticError)
"""What the readers raise for unknown data."""


def key_of(item: Mapping[str, Value]) -> table.Key:
    return str(item["pk"]["S"]), str(item["sk"]["S"])


def poison_of(key: table.Key, reason: object) -> Poison:
    text = f"{type(reason).__name__}: {reason}" if isinstance(reason, Exception) else str(reason)
    return Poison(key=json.dumps(key), reason=text)


def key_in(poison: Poison) -> table.Key:
    """Return the key of the unreadable item. Raises ValueError if the key is not one of this
    store's."""
    pk, sk = json.loads(poison.key)
    return str(pk), str(sk)


def bearer(key: table.Key) -> str:
    """Return the name of the job that a copy with this key belongs to."""
    return key[1].rpartition("#")[2]


def whole_job(item: Mapping[str, Value] | None) -> Job | None:
    """Return the job in its own item; None if the item is missing or unreadable."""
    with suppress(*UNREADABLE):
        job = _judged(job_of(item)) if item else None
        return job if item and job and key_of(item) == table.job_key(job.name) else None
    return None


def job_in(item: Item) -> Job:
    """Return the job in a copy, at any key. Raises one of UNREADABLE."""
    return _judged(job_of(item))


def copy_of(item: Item) -> Job:
    """Return the job in a copy that belongs at its key. Raises one of UNREADABLE."""
    job, key = job_in(item), key_of(item)
    if key not in copies_of(job):
        raise ValueError(f"a job that is {job.state} has no copy here")
    return job


def whole_copy(item: Item | None, name: str) -> Job | None:
    """Return the job of that name in a copy; None if the item is no such copy."""
    with suppress(*UNREADABLE):
        copy = copy_of(item) if item else None
        return copy if copy and copy.name == name else None
    return None


def whole_pool(item: Item | None) -> tuple[int, Pool] | None:
    """Return a pool's position and definition; None if the item is missing or unreadable."""
    with suppress(*UNREADABLE):
        return definition_of(item) if item else None
    return None


def definition_of(item: Item) -> tuple[int, Pool]:
    """Return a pool's position and definition. Raises one of UNREADABLE."""
    pool = pool_of(item)
    if table.pool_key(pool.name) != key_of(item):
        raise ValueError(f"it defines another pool, {pool.name}")
    return int(item["position"]["N"]), pool


def node_at(key: table.Key) -> tuple[str, str] | None:
    """Return the pool and the name of the node whose item, or whose slot's item, has this key;
    None: neither."""
    pk, sk = key
    if pk.startswith(table.NODES_PREFIX):
        return pk.removeprefix(table.NODES_PREFIX), sk
    pool = pk.removeprefix(table.POOL_PREFIX)
    slot, node = table.node_slot_key(pool, "")[1], sk.rpartition(":")[2]
    return (pool, node) if pk != pool and sk.startswith(slot) else None


def whole_node(item: Item | None) -> Node | None:
    """Return the node in its own item; None if the item is missing or unreadable."""
    with suppress(*UNREADABLE):
        return readable_node(item) if item else None
    return None


def readable_node(item: Item) -> Node:
    """Return the node in its own item. Raises one of UNREADABLE, also if the room on it cannot be
    read."""
    jobs_on(item)
    room_in(item)
    return node_of(item)


def attempts_on(item: Item | None, generation: int) -> dict[str, int]:
    """Return the jobs that a node of this generation names, with the numbers of their attempts, as
    far as they can be read."""
    found: dict[str, int] = {}
    if item is None or item.get("generation") != {"N": str(generation)}:
        return found
    for name in item:
        if name.startswith(job_attribute("")):
            with suppress(*UNREADABLE):
                found[name.removeprefix(job_attribute(""))] = whole(item[name])
    return found


def is_own(line: str) -> bool:
    """Whether this version uses this name for a line."""
    with suppress(*UNREADABLE):
        return Line.parse(line).key == line
    return False


def is_line(line: str) -> bool:
    """Whether some version may use this name for a line: every version writes a JSON list."""
    with suppress(ValueError):
        return isinstance(json.loads(line), list)
    return False


def _judged(job: Job) -> Job:
    if job.active != (job.attempt is not None):
        has = "has no" if job.active else "has an"
        raise ValueError(f"a job that is {job.state} {has} attempt")
    if (job.state == "backoff") != (job.not_before is not None):
        raise ValueError(f"a job that is {job.state} waits until {job.not_before}")
    if not 0 < job.version < MOST_COUNTED:
        raise ValueError(f"a stored job cannot have the version {job.version}")
    return job


class Sieve:
    """Reads items, and collects those that it could not read."""

    def __init__(self) -> None:
        self._poison: dict[table.Key, Poison] = {}

    @property
    def poison(self) -> tuple[Poison, ...]:
        return tuple(self._poison.values())

    def add(self, poison: Iterable[Poison]) -> None:
        self._poison.update({key_in(item): item for item in poison})

    def note(self, key: table.Key, reason: object) -> None:
        self._poison[key] = poison_of(key, reason)

    def read(self, items: Iterable[Item], reader: Callable[[Item], T]) -> list[T]:
        """Return the reader's results for the readable items."""
        found = []
        for item in items:
            try:
                found.append(reader(item))
            except UNREADABLE as error:
                self.note(key_of(item), error)
        return found
