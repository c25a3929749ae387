"""When passes run: the wake's generation and lease, and the turns of periodic tasks."""

from __future__ import annotations

from typing import Protocol


class Scheduler(Protocol):
    """Which trigger makes a pass, and when. Methods may raise Unavailable."""

    def bump(self) -> int | None:
        """Raise the wake's generation: there is something to decide.

        Returns when the present lease ends (ms), None if nobody holds it. Its holder sees the new
        generation, so nobody need ask for a pass before that moment.
        """

    def take_lease(
        self, holder: str, *, now: int, until: int, only_news: bool = False, bump: bool = False
    ) -> int | None:
        """Take or renew the lease on passes until `until` (ms).

        Returns the current generation. Returns None while another holder's lease lasts, and with
        `only_news` also if nobody has bumped since the last complete pass. With `bump`, raises the
        generation first, whoever holds the lease. The lease only saves work: two holders at once do
        no harm.
        """

    def end_lease(self, holder: str, *, generation: int | None) -> bool:
        """Give the lease back, and record `generation` as handled, if nobody has bumped since.

        With None, give the lease back in any case and record nothing. Returns False if somebody has
        bumped or another holds the lease.
        """

    def take_turn(self, task: str, *, now: int, next_at: int) -> bool:
        """Take the turn of a periodic task if one is due, and set the next turn to `next_at`.
        Returns whether it was due. Only one caller gets each turn."""

    def next_turn(self, task: str) -> int | None:
        """When the task's next turn comes (ms); None if nobody has taken one."""

    def postpone(self, task: str, *, next_at: int) -> None:
        """Set the task's next turn to `next_at`, whatever was set before."""
