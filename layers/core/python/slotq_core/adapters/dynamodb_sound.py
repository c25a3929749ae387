"""Whether an item can be understood: what cannot is named and passed over, and stops nothing else.

An item may have been written by a newer release, by hand, or by a bug. A copy of a job is sound only
where its job says that it stands: so a copy that was left behind is as good as unreadable.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from slotq_core.adapters import dynamodb_table as table
from slotq_core.adapters.dynamodb_items import Item, Value, copies_of, job_of
from slotq_core.model import Job
from slotq_core.ports import Poison

T = TypeVar("T")

UNREADABLE = (KeyError, ValueError, TypeError, AttributeError, IndexError, ArithmeticError)
"""What the readers raise for what they do not know."""


def key_of(item: Mapping[str, Value]) -> table.Key:
    return str(item["pk"]["S"]), str(item["sk"]["S"])


def poison_of(key: table.Key, reason: object) -> Poison:
    text = f"{type(reason).__name__}: {reason}" if isinstance(reason, Exception) else str(reason)
    return Poison(key=json.dumps(key), reason=text)


def key_in(poison: Poison) -> table.Key:
    """Raises ValueError where it is none of this store's."""
    pk, sk = json.loads(poison.key)
    return str(pk), str(sk)


def bearer(key: table.Key) -> str:
    """The name of the job that a copy with this key is of."""
    return key[1].rpartition("#")[2]


def whole_job(item: Mapping[str, Value] | None) -> Job | None:
    """The job in its own item; None where it is not there or cannot be understood."""
    try:
        return _judged(job_of(item)) if item else None
    except UNREADABLE:
        return None


def copy_of(item: Item) -> Job:
    """The job that a copy holds. Raises one of UNREADABLE."""
    job, key = _judged(job_of(item)), key_of(item)
    if key not in copies_of(job):
        raise ValueError(f"a copy of a job that is {job.state} does not belong there")
    return job


def _judged(job: Job) -> Job:
    if job.active != (job.attempt is not None):
        raise ValueError(
            f"a job that is {job.state} {'has no' if job.active else 'has an'} attempt"
        )
    if (job.state == "backoff") != (job.not_before is not None):
        raise ValueError(f"a job that is {job.state} waits until {job.not_before}")
    return job


class Sieve:
    """Reads items, keeping what it could not understand."""

    def __init__(self) -> None:
        self._poison: dict[table.Key, Poison] = {}

    @property
    def poison(self) -> tuple[Poison, ...]:
        return tuple(self._poison.values())

    def add(self, poison: Iterable[Poison]) -> None:
        self._poison.update({key_in(each): each for each in poison})

    def note(self, key: table.Key, reason: object) -> None:
        self._poison[key] = poison_of(key, reason)

    def read(self, items: Iterable[Item], reader: Callable[[Item], T]) -> list[T]:
        """What the reader makes of those that it understands."""
        found = []
        for item in items:
            try:
                found.append(reader(item))
            except UNREADABLE as error:
                self.note(key_of(item), error)
        return found
