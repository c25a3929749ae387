"""A line's item: the times of entries, and a lower bound of the order keys.

`touched`   when (ms) a job was last about to enter the line
`returned`  when (ms) a stored job was last about to enter the line
`bound`     an order key: no job of the line has a lower one. No bound: the first may be any job

`waiting`   how many jobs wait in the line, if a project owns the line: fair shares use this number

The count lags. A submission counts before its transaction, any other change after it. If the
handler dies in between, the count is wrong until an audit corrects it (`repair.line_audit`). That
is enough for shares, which order jobs and gate reclaim and never over-commit.

A pass plans with a line's bound instead of the first job, and does not read a blocked line. So this
invariant must hold at every moment: each waiting job's line exists, and the line's bound is at most
the job's order key. The writers, and why the invariant holds:

- A submission touches the line before its transaction. Its order key begins with the present time,
  and no bound is above the present time less `GRACE`. So the bound may stay.
- A return (every change that puts a stored job into a line) touches the line before its
  transaction, and removes the bound (`expressions.return_to_line`).
- A pass raises the bound to the first order key that it has read, at most to the present time less
  `GRACE`. It does so only after `GRACE` without a return, so that every earlier return is either
  among the jobs read or will never come; and on the condition that no return came since.
- A pass removes an empty line after `LINE_KEPT` without a touch.

Handlers of earlier versions know no bound. They use lines of another name (`policy.lines`), and a
pass moves the jobs of those lines by a return.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from slotq_core.adapters.dynamodb.layout.records import Item
from slotq_core.adapters.dynamodb.layout.validation import UNREADABLE, is_line, is_own
from slotq_core.policy.lines import Line
from slotq_core.policy.order import Rank
from slotq_core.storage.order_keys import first_key, key_of_rank, moment_in
from slotq_core.timestamps import FAR_OFF

GRACE = 300_000
"""Longer (ms) than any handler takes from the touch of a line to its commit, plus the difference
between two handlers' clocks. A handler lives for a minute, so clocks may differ by four."""

LINE_KEPT = 3_600_000
"""How long (ms) an empty line is kept after its last touch: far longer than `GRACE`."""

WORTH = GRACE
"""By how much later (ms) a job must have entered for a higher bound to be worth a write."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredLine:
    """A line as a pass has read it."""

    name: str
    touched: int | None
    """None: unreadable. The line is kept, because jobs may wait there."""
    returned: int | None = None
    """None: no return yet, or the time is unreadable (`broken`)."""
    bound: str = ""
    """Empty: none, or an unreadable one (`broken`)."""
    waiting: int | None = None
    """None: not counted, or unreadable."""
    own: bool = True
    """Whether this version uses this name for a line."""
    broken: bool = False
    """Whether `returned` or `bound` is unreadable. No bound is raised before a return has replaced
    both."""

    def higher_bound(self, first: str | None, now: int) -> str:
        """The bound to raise to; empty if none may be set or none is worth a write.

        `first`: the sort key of the first item in the line's partition, whatever the item is: a
        claimant's and an unreadable one count. None: the partition is empty. `now` (ms) is from
        before the line's item was read, and the partition was read after that item.
        """
        if self.broken or not (self.returned is None or self.returned < now - GRACE):
            return ""
        latest = first_key(_rank(self.name), now - GRACE)
        found = latest if first is None else min(first, latest)
        return found if _sound(self.name, found) and self._worth(first, found) else ""

    def _worth(self, first: str | None, found: str) -> bool:
        """An empty line needs no higher bound: it is passed over once it is read."""
        if not self.bound:
            return True
        return first is not None and moment_in(found) - moment_in(self.bound) >= WORTH

    def outlived(self, now: int) -> bool:
        """Whether the line may be removed if it is empty."""
        return self.touched is not None and self.touched < now - LINE_KEPT


def is_counted(line: str) -> bool:
    """Whether the waiting jobs of this line are counted: those of a project."""
    return bool(parsed(line).project)


def line_in(item: Item, now: int) -> StoredLine:
    """Return the line in an item. Raises ValueError if the item names no line.

    What comes from a wrong clock counts as unreadable: a `returned` more than `FAR_OFF` after `now`
    (ms), and a bound after `now`, for each bound was `GRACE` before the time of its pass.
    """
    name = item["sk"]["S"]
    if not is_line(name):
        raise ValueError("it names no line")
    returned, bound = _number(item, "returned"), item.get("bound", {}).get("S", "")
    late = returned is not None and returned > now + FAR_OFF
    sound = bool(bound) and _sound(name, bound) and moment_in(bound) <= now
    return StoredLine(
        name=name,
        own=is_own(name),
        touched=_number(item, "touched"),
        waiting=_number(item, "waiting"),
        returned=None if late else returned,
        bound=bound if sound else "",
        broken=late or ("returned" in item and returned is None) or ("bound" in item and not sound),
    )


def has_touch(line: Item) -> bool:
    """Whether the time of the last touch can be read."""
    return _number(line, "touched") is not None


def _number(item: Item, attribute: str) -> int | None:
    try:
        return int(item[attribute]["N"])
    except UNREADABLE:
        return None


parsed = lru_cache(maxsize=4096)(Line.parse)


def _rank(line: str) -> Rank:
    return parsed(line).rank


def _sound(line: str, bound: str) -> bool:
    """Whether this may be the bound of that line."""
    try:
        return bound.startswith(key_of_rank(_rank(line))) and moment_in(bound) >= 0
    except UNREADABLE:
        return False
