"""Departments, projects and operators, and many pools, as documents that are written once and never
changed.

A document's key is a hash of its contents, and the REVISION item names the current document. So a
change of a thousand projects takes effect at once when REVISION changes, and an interrupted change
has no effect. The history names the documents before and after each change.

A document is compact JSON, compressed. Values that are the model's defaults are left out, so a
value that a later version adds costs nothing where nobody uses it.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from enum import Enum
from functools import lru_cache
from typing import Any, TypeVar

from slotq_core.adapters.dynamodb.calls import TableCalls
from slotq_core.adapters.dynamodb.layout import expressions, table
from slotq_core.adapters.dynamodb.layout.items import pool_of
from slotq_core.adapters.dynamodb.layout.records import write
from slotq_core.errors import ConfigurationLost
from slotq_core.model.callers import Access
from slotq_core.model.demand import Demand
from slotq_core.model.notices import Digest, JobEvent, Notification, Receiver
from slotq_core.model.pools import Pool
from slotq_core.model.projects import Beyond, Budget, Department, Fairness, Prescription, Project
from slotq_core.model.sharing import NO_SHARING, FairShare, SchedulerSettings, Sharing, Subscription
from slotq_core.model.users import PriorityClass, User, UserGroup

PART = 350_000
"""Size (bytes) of a part: DynamoDB limits an item to 400 KB."""

_KEPT = 3
"""Number of cached documents: each change in the history begins with the next one's document."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    sharing: Sharing = NO_SHARING
    pools: tuple[Pool, ...] | None = None
    """None: the pools have items of their own."""


EMPTY = Document()


def name_of(sharing: Sharing, pools: Sequence[Pool] | None = None) -> str:
    """Return the document's name; empty if there is nothing to keep in a document."""
    if sharing == NO_SHARING and pools is None:
        return ""
    return hashlib.sha256(packed(sharing, pools)).hexdigest()[:32]


class SharingDocuments:
    def __init__(self, calls: TableCalls) -> None:
        self._calls = calls
        self.read = lru_cache(maxsize=_KEPT)(self.read_again)

    def read_again(self, name: str) -> Document:
        """Return the document. Raises ConfigurationLost if it is missing or unreadable: without it
        no quota is known, so nothing may start."""
        if not name:
            return EMPTY
        parts = self._calls.query(expressions.partition_from(table.CONFIG, _prefix(name)))
        try:
            sharing, pools = unpacked(b"".join(part["data"]["B"] for part in parts))
            return Document(sharing=sharing, pools=pools)
        except (ValueError, KeyError) as error:
            raise ConfigurationLost(
                f"the departments and projects of the configuration (document {name}) cannot be "
                f"read: {error}; nothing starts until they are restored, by `slotq doctor --fix` "
                "or from a backup"
            ) from None

    def write(self, sharing: Sharing, pools: Sequence[Pool] | None) -> str:
        """Store the document, unless it needs none; return its name."""
        if name := name_of(sharing, pools):
            data = packed(sharing, pools)
            for number, start in enumerate(range(0, len(data), PART)):
                key = table.sharing_key(name, number)
                self._calls.put(key, {"data": {"B": data[start : start + PART]}})
        return name


def _prefix(name: str) -> str:
    return table.sharing_key(name, 0)[1].removesuffix("00")


T = TypeVar("T")
Reader = Callable[[Any], Any]


def packed(sharing: Sharing, pools: Sequence[Pool] | None = None) -> bytes:
    """Return the stored form; equal contents have equal forms. `pools` None: they have items of
    their own. An earlier version refuses a form with pools, so it decides nothing without them."""
    contents = _written(sharing)
    if pools is not None:
        contents["pools"] = [write(pool) for pool in pools]
    text = json.dumps(contents, sort_keys=True, separators=(",", ":"))
    return zlib.compress(text.encode(), 9)


def unpacked(data: bytes) -> tuple[Sharing, tuple[Pool, ...] | None]:
    """Return the contents. Raises ValueError, also for what only a later version understands."""
    try:
        contents = json.loads(zlib.decompress(data))
        pools = contents.pop("pools", None)
        return _sharing(contents), None if pools is None else tuple(map(pool_of, pools))
    except (zlib.error, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"the document cannot be read: {error}") from None


def _written(value: Any) -> Any:
    if hasattr(value, "__dataclass_fields__"):
        return {
            field.name: _written(own)
            for field in fields(value)
            if (own := getattr(value, field.name)) != _default(field)
        }
    if isinstance(value, Mapping):
        return {str(key): _written(own) for key, own in value.items()}
    if isinstance(value, frozenset):
        return sorted(_written(member) for member in value)
    if isinstance(value, tuple | list):
        return [_written(member) for member in value]
    return value.value if isinstance(value, Enum) else value


def _default(field: Any) -> Any:
    return field.default_factory() if field.default_factory is not MISSING else field.default


def _reading(kind: Callable[..., T], **readers: Reader) -> Callable[[Any], T]:
    """Return a reader for a class of the model. `readers`: for fields that JSON has no type for.
    An unknown field raises TypeError."""

    def read(value: Mapping[str, Any]) -> T:
        return kind(**{key: readers.get(key, _as_it_is)(own) for key, own in value.items()})

    return read


def _as_it_is(value: Any) -> Any:
    return value


def _each(read: Reader) -> Reader:
    return lambda values: tuple(read(item) for item in values)


def _amounts(value: Mapping[str, Mapping[str, int]] | None) -> Mapping[str, Demand] | None:
    return None if value is None else {scope: Demand(own) for scope, own in value.items()}


def _lists(value: Mapping[str, Any]) -> Mapping[str, tuple[str, ...]]:
    return {key: tuple(own) for key, own in value.items()}


_access = _reading(Access, viewers=tuple, members=tuple, admins=tuple, default_for=tuple)
_requests = _reading(
    Prescription, roles=tuple, images=tuple, outputs=tuple, pools=tuple, instance_types=_lists
)
_budget = _reading(Budget, beyond=Beyond)
_project = _reading(
    Project, quota=_amounts, pools=tuple, budget=_budget, access=_access, requests=_requests
)
_department = _reading(Department, quota=_amounts, fairness=Fairness)
_sharing = _reading(
    Sharing,
    departments=_each(_department),
    projects=_each(_project),
    operators=tuple,
    session_roles=tuple,
    classes=_each(_reading(PriorityClass, chosen_by=tuple)),
    users=_each(_reading(User, groups=tuple)),
    user_groups=_each(_reading(UserGroup, members=tuple)),
    unchecked=lambda values: frozenset(map(Subscription, values)),
    scheduler=_reading(SchedulerSettings),
    fair_share=_reading(FairShare),
    notifications=_each(
        _reading(
            Notification,
            events=lambda values: tuple(map(JobEvent, values)),
            receiver=_reading(Receiver),
            digest=Digest,
        )
    ),
)
