"""The clock, the next pass, and people."""

from __future__ import annotations

from typing import Protocol


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
