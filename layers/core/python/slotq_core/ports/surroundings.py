"""The clock, the next pass, and people."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

LONGEST_DELAY = 900_000
"""How far ahead a pass may be asked for (ms): the longest delay of an SQS message."""


A = TypeVar("A")
R = TypeVar("R")


class InParallel(Protocol):
    """Makes independent calls at once."""

    def __call__(self, call: Callable[[A], R], asked: Sequence[A], /) -> list[R]:
        """Return what `call` returns for each argument, in the order of the arguments. Raises the
        first error in that order. `call` must not call this again."""


def one_by_one(call: Callable[[A], R], asked: Sequence[A], /) -> list[R]:
    """Call in this thread, in order: where the order of calls matters, or calls take no time."""
    return [call(each) for each in asked]


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
