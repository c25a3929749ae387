"""What is true of that which statements of the pages print."""

from __future__ import annotations

import json
from collections.abc import Callable


def says(words: str) -> Callable[[str], None]:
    def check(printed: str) -> None:
        assert words in printed

    return check


def _table(printed: str) -> None:
    assert "SLOT-H" in printed.splitlines()[0]


def _total(printed: str) -> None:
    total = json.loads(printed)["total"]
    assert min(total["evictions_given"], total["evictions_taken"]) >= 1
    assert 0 < total["lost_hours"] <= total["slot_hours"]
    assert total["instance_hours"] <= total["slot_hours"]


USAGE: dict[str, Callable[[str], None]] = {
    "slotq usage --by project": _table,
    "slotq usage": _table,
    "slotq usage --by pool --json": _total,
}
