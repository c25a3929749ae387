"""The record of what attempts used: of each attempt while the history lasts, and in sums by day
that never expire."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from slotq_core.model.jobs import Job
from slotq_core.usage.attempt_use import AttemptUse
from slotq_core.usage.day_rows import Cell


@dataclass(frozen=True, kw_only=True, slots=True)
class EndedAttempts:
    """Some of the attempts whose end the queue recorded on one day, in the order of recording."""

    uses: tuple[AttemptUse, ...]
    last: str
    """The position of the last record read; that which was asked for if none was."""
    more: bool
    """Whether there may be records behind the last."""
    unreadable: int = 0
    """Records that were read and not understood."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DaySum:
    """What is summed up of the attempts whose end the queue recorded on one day."""

    day: str
    through: str = ""
    """The position of the last attempt in the sum; empty: none."""
    attempts: int = 0
    """How many attempts are in the sum."""
    unreadable: int = 0
    """Records that are not in it, because they could not be read."""
    begins: str = ""
    """The earliest calendar day that has an amount; empty: no attempts."""
    parts: tuple[str, ...] = ()
    """Names of the parts."""
    whole: bool = False
    """Whether the sum has every attempt of the day."""
    readable: bool = True


class UsageBook(Protocol):
    """The record of use. A record belongs to the day on which the queue recorded the attempt's end.

    The transaction that ends an attempt makes the record. Methods may raise Unavailable.
    """

    def running(self) -> tuple[Job, ...]:
        """Every job that holds slots. Strongly consistent."""

    def ended(self, day: str, *, after: str = "", limit: int) -> EndedAttempts:
        """At most `limit` records of the day behind the position `after`. Strongly consistent."""

    def sums(self, first: str = "") -> Sequence[DaySum]:
        """The sums of the days from `first` on, in their order."""

    def last_sum(self) -> DaySum | None:
        """The sum of the latest day that has one."""

    def cells(self, part: str) -> Sequence[Cell]:
        """A part of a sum. Raises NotUnderstood if it cannot be read."""

    def extend(self, seen: DaySum, extended: DaySum, parts: Iterable[str]) -> None:
        """Add parts to a day's sum, all or none. Names them. Raises Conflict if the sum is no
        longer as `seen`, and then nothing is added."""
