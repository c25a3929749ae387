"""Past use by project: attributes of the REVISION item, which every pass reads anyway.

`pastUse` is compressed JSON, and `pastUseVersion` counts its changes.
"""

from __future__ import annotations

import json
import zlib
from contextlib import suppress
from dataclasses import asdict

from slotq_core.adapters.dynamodb.layout.records import Item
from slotq_core.adapters.dynamodb.layout.validation import UNREADABLE
from slotq_core.model.projects import NO_PAST_USE, PastUse

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
            parts={
                str(scope): {str(name): int(part) for name, part in own.items()}
                for scope, own in found["parts"].items()
            },
            slot_seconds={str(scope): int(own) for scope, own in found["slot_seconds"].items()},
        )
    return NO_PAST_USE


def version_of(item: Item) -> int:
    with suppress(*UNREADABLE):
        return int(item["pastUseVersion"]["N"])
    return 0
