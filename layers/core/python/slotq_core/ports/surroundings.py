"""When passes run, what has changed, the clock, independent calls, and people."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

LONGEST_DELAY = 900_000
"""How far ahead a pass may be asked for (ms): the longest delay of an SQS message."""

IN_FLIGHT = 16
"""Maximum number of calls at once. Each client needs as many connections."""

A = TypeVar("A")
R = TypeVar("R")


class InParallel(Protocol):
    """Makes independent calls at once."""

    def __call__(self, call: Callable[[A], R], asked: Sequence[A], /) -> list[R]:
        """Return what `call` returns for each argument, in the order of the arguments. Raises the
        first error in that order. `call` must not call this again."""


def one_by_one(call: Callable[[A], R], asked: Sequence[A], /) -> list[R]:
    """Call in this thread, in order: where the order of calls matters, or calls take no time."""
    return [call(argument) for argument in asked]


class DeadLetters(Protocol):
    """A place for events and items that cannot be read, for people to look at."""

    def put(self, kind: str, subject: str, reason: str) -> None:
        """Put one item there. Never raises."""


class DiscardDeadLetters(DeadLetters):
    """Dead letters for queues that have none: simulations and tests."""

    def put(self, kind: str, subject: str, reason: str) -> None:
        pass


class Clock(Protocol):
    def now(self) -> int:
        """Milliseconds since the epoch."""


class Notifier(Protocol):
    """Asks for a pass, soon and at least once. Returns without waiting for the pass."""

    def wake(self) -> None: ...

    def wake_at(self, at: int) -> None:
        """Ask for a pass at that moment (ms) or at most 5 s later. `at` is at most LONGEST_DELAY
        ahead. If the request is lost, the next tick runs the pass."""


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueVersion:
    """The version of what the queue shows."""

    text: str
    """Differs after each change."""
    busy_until: int = 0
    """Until when (ms) a pass may change something without a new version; 0: no pass runs."""


class Scheduler(Protocol):
    """Which trigger makes a pass, and when; and what has changed. Methods may raise Unavailable."""

    def bump(self) -> int | None:
        """Raise the wake's generation: there is something to decide.

        Returns when the present lease ends (ms), None if no holder has it. Its holder sees the new
        generation, so no pass is needed before that moment.
        """

    def take_lease(
        self, holder: str, *, now: int, until: int, only_news: bool = False, bump: bool = False
    ) -> int | None:
        """Take or renew the lease on passes until `until` (ms).

        Returns the current generation. Returns None while another holder's lease lasts, and with
        `only_news` also without a bump since the last complete pass. With `bump`, raises the
        generation first, even while another holder has the lease. The lease only saves work: two
        holders at once do no harm.
        """

    def end_lease(self, holder: str, *, generation: int | None) -> bool:
        """Give the lease back, and record `generation` as handled, if no bump came since.

        With None, give the lease back in any case and record nothing. Returns False after a bump,
        or if another holder has the lease."""

    def version(self) -> QueueVersion:
        """The version of what the queue shows, by one read. It moves with each bump, with the end
        of a lease whose holder has changed something, and with `announce`."""

    def announce(self) -> None:
        """Move the version if this process has changed something that no other call has announced.
        A handler's last call; without changes nothing is called."""

    def take_turn(self, task: str, *, now: int, next_at: int) -> bool:
        """Take the turn of a periodic task if one is due, and set the next turn to `next_at`.
        Returns whether it was due. Only one caller gets each turn."""

    def next_turn(self, task: str) -> int | None:
        """When the task's next turn comes (ms); None if no turn was ever taken."""

    def postpone(self, task: str, *, next_at: int) -> None:
        """Set the task's next turn to `next_at`, whatever was set before."""
