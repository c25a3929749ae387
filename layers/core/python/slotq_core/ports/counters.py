"""The use of callers' and projects' limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from slotq_core.model.callers import CallerLimits, CallerUse, OpenLine, QueueUse
from slotq_core.model.jobs import Job


@dataclass(frozen=True, kw_only=True, slots=True)
class Counter:
    """One caller's counter, as an audit reads it."""

    waiting: int = 0
    lines: int = 0
    """Lines that the caller has opened (`caller_limits.payers`)."""
    audits: int = 0
    """Corrections so far. Of two audits at once, only one corrects the counter."""
    minutes: frozenset[int] = frozenset()
    """The minutes for which the counter still keeps submissions."""
    readable: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Census:
    """Waiting jobs counted one by one, for audits. The count may lag behind by a moment."""

    waiting: Mapping[str, int]
    """Jobs in QUEUED_STATES, by submitter."""
    lines: int
    """Lines with waiting jobs."""
    open_lines: Sequence[OpenLine] = ()
    """Every line that is kept, with and without jobs."""
    projects: Mapping[str, int] = field(default_factory=dict)
    """Jobs in QUEUED_STATES, by project."""


class Counters(Protocol):
    """Counters of the use of callers' limits. A project has a counter like a caller's
    (`caller_limits.project_counter`).

    A submission is counted before it is kept, in a separate call, so a submission that is not kept
    may be counted. Jobs that leave the queue are not subtracted. Audits correct both. Methods may
    raise Unavailable.
    """

    def take(self, caller: str, *, minute: int | None, limits: CallerLimits) -> bool:
        """Count one more submission if the limits allow it. Returns whether they did. A single
        conditional update. Without a minute, count one more waiting job that is not a
        submission."""

    def count(
        self, caller: str, *, minute: int | None, limits: CallerLimits, number: int = 1
    ) -> CallerUse | None:
        """Do the same for so many submissions at once, and return the use; None if the limits do
        not allow all of them."""

    def has_line_of(self, job: Job) -> bool:
        """Whether the line that the new job would wait in exists; else its caller opens it. One
        read."""

    def opened(self, caller: str) -> None:
        """Note a line that a submission of the caller has opened. It costs no call: the caller's
        next count includes it, and if this process ends before, the next audit does."""

    def give_back(self, caller: str, *, minute: int | None, number: int = 1) -> None:
        """Give back the count of submissions that were not kept. With None, only among the waiting
        jobs: the submissions stay counted in their minute."""

    def open_line(self, caller: str, *, minute: int | None, lines: int, submissions: int) -> bool:
        """Count one more line that the caller opens, if the caller has opened fewer than `lines`
        (0: no limit). With a minute, count it as a submission too, if there were fewer than
        `submissions` in that minute (0: no limit). Returns whether it was counted. A single
        conditional update."""

    def use(self, caller: str, *, minute: int) -> CallerUse: ...

    def all(self) -> Mapping[str, Counter]:
        """Every counter, by caller."""

    def census(self) -> Census: ...

    def correct(
        self, caller: str, seen: Counter, *, waiting: int, minute: int, lines: int = 0
    ) -> None:
        """Correct the counter by the difference from the audit's count. Later counts stay.

        Forgets minutes before the last. Deletes the counter if it is empty or cannot be read. Does
        nothing if another audit was faster.
        """

    def set_queue_use(self, use: QueueUse) -> None: ...
