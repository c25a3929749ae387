"""The record of attempts' use: of each attempt while the history lasts, and in sums by day that
never expire."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from slotq_core.model.jobs import Job
from slotq_core.model.projects import PastUse
from slotq_core.usage.attempt_use import AttemptUse
from slotq_core.usage.day_rows import Cell


@dataclass(frozen=True, kw_only=True, slots=True)
class EndedAttempts:
    """Some of the attempts whose end the queue recorded on one day, in the order of recording."""

    uses: tuple[AttemptUse, ...]
    last: str
    """The position of the last record read; the requested position if none was read."""
    more: bool
    """Whether there may be records behind the last."""
    unreadable: int = 0
    """Records that were read and not understood."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DaySum:
    """The sum over the attempts whose end the queue recorded on one day."""

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


@dataclass(frozen=True, kw_only=True, slots=True)
class MonthSum:
    """The use of ended attempts of projects with a budget in one month, in slots multiplied by ms,
    by project."""

    month: int = 0
    """The month's first moment (ms)."""
    settled: Mapping[str, int] = field(default_factory=dict)
    """Of the records up to `through`. Names every project that is counted."""
    recent: Mapping[str, int] = field(default_factory=dict)
    """Of the records behind it."""
    day: str = ""
    """The day of the last record in `settled`, or the day to begin with."""
    through: str = ""
    """The position of that record; empty: none of this day."""
    latest: str = ""
    """The position of the last record in `recent`, or in `settled`; empty: none."""
    version: int = 0
    """Rises with each change; 0: nothing is stored."""

    def slot_ms(self) -> dict[str, int]:
        """The use of each project's ended attempts."""
        return {name: own + self.recent.get(name, 0) for name, own in self.settled.items()}


NO_MONTH = MonthSum()


class UsageBook(Protocol):
    """The record of use. A record belongs to the day on which the queue recorded the attempt's end.

    The transaction that ends an attempt makes the record. Methods may raise Unavailable.
    """

    def running(self) -> tuple[Job, ...]:
        """Every job that holds slots, once. Strongly consistent."""

    def ended(self, day: str, *, after: str = "", before: str = "", limit: int) -> EndedAttempts:
        """At most `limit` records of the day behind the position `after`, and before `before` if
        given. Strongly consistent."""

    def sums(self, first: str = "") -> Sequence[DaySum]:
        """The sums of the days from `first` on, in their order."""

    def last_sum(self) -> DaySum | None:
        """The sum of the latest day that has one."""

    def cells(self, part: str) -> Sequence[Cell]:
        """A part of a sum. Raises NotUnderstood if it cannot be read."""

    def extend(self, seen: DaySum, extended: DaySum, parts: Iterable[str]) -> None:
        """Add parts to a day's sum, all or none. Names them. Raises Conflict if the sum is no
        longer as `seen`, and then nothing is added."""

    def keep_month(self, seen: MonthSum, counted: MonthSum) -> None:
        """Store the sum. Raises Conflict if the sum is no longer as `seen`."""

    def keep_past_use(self, seen: int, counted: PastUse) -> None:
        """Store past use. Raises Conflict if its version is no longer `seen`."""

    def warn(self, project: str, month: int) -> bool:
        """Record that the queue warns of the project's budget in the month (its first moment, ms).
        Returns whether this is the first warning: only one caller gets True."""

    def take_back_warning(self, project: str, month: int) -> None:
        """Forget the warning: the budget has been raised."""
