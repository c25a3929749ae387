"""Departments, projects and operators, and many pools, as documents that are written once and never
changed.

A document's key is a hash of its contents, and the REVISION item names the current document. So a
change of a thousand projects takes effect at once when REVISION changes, and an interrupted change
has no effect. The history names the documents before and after each change.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from slotq_core.adapters.dynamodb.calls import TableCalls
from slotq_core.adapters.dynamodb.layout import expressions, table
from slotq_core.adapters.dynamodb.layout.sharing_text import packed, unpacked
from slotq_core.errors import ConfigurationLost
from slotq_core.model.pools import Pool
from slotq_core.model.sharing import NO_SHARING, Sharing

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
