"""Past use by project and user: attributes of the REVISION item, which every pass reads anyway.

`pastUse` is compressed JSON, and `pastUseVersion` counts its changes.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from slotq_core.adapters.dynamodb.layout.records import Item
from slotq_core.adapters.dynamodb.layout.validation import UNREADABLE
from slotq_core.model.projects import NO_PAST_USE, PastUse, UseOf

ATTRIBUTES = frozenset({"pastUse", "pastUseVersion"})
"""They change without the configuration."""


def packed_past_use(counted: PastUse) -> bytes:
    return zlib.compress(json.dumps(asdict(counted), separators=(",", ":")).encode(), 9)


def past_use_of(item: Item) -> PastUse:
    """Return the sums in the REVISION item. Unreadable sums count as missing: the next tick adds
    up the records again."""
    if "pastUse" not in item:
        return NO_PAST_USE
    with suppress(*UNREADABLE, zlib.error):
        found = json.loads(zlib.decompress(bytes(item["pastUse"]["B"])))
        return PastUse(
            at=int(found["at"]),
            half_life=int(found["half_life"]),
            by_pool=bool(found["by_pool"]),
            of=UseOf(found.get("of", UseOf.PROJECTS)),
            parts=_parts(found["parts"]),
            slot_seconds=_amounts(found["slot_seconds"]),
            users=_parts(found.get("users", {})),
            user_slot_seconds=_amounts(found.get("user_slot_seconds", {})),
        )
    return NO_PAST_USE


def _parts(stored: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    return {str(whole): _amounts(own) for whole, own in stored.items()}


def _amounts(stored: Mapping[str, Any]) -> dict[str, int]:
    return {str(owner): int(amount) for owner, amount in stored.items()}


def version_of(item: Item) -> int:
    with suppress(*UNREADABLE):
        return int(item["pastUseVersion"]["N"])
    return 0
