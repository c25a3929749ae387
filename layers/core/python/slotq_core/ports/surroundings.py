"""The clock, the next pass, and people."""

from __future__ import annotations

from typing import Protocol

LONGEST_DELAY = 900_000
"""How far ahead a pass may be asked for (ms): the longest delay of an SQS message."""


class DeadLetters(Protocol):
    """A place for events and items that cannot be read, for people to look at."""

    def put(self, kind: str, subject: str, reason: str) -> None:
        """Put one item there. Never raises."""


class Clock(Protocol):
    def now(self) -> int:
        """Milliseconds since the epoch."""


class Notifier(Protocol):
    """Asks for a pass, soon and at least once. Returns without waiting for the pass."""

    def wake(self) -> None: ...

    def wake_at(self, at: int) -> None:
        """Ask for a pass at that moment (ms) or at most 5 s later. `at` is at most LONGEST_DELAY
        ahead. If the request is lost, the next tick runs the pass."""
