"""When passes run, in memory (`ports.surroundings.Scheduler`)."""

from __future__ import annotations

import threading
from collections.abc import Callable

from slotq_core.ports.surroundings import QueueVersion
from slotq_core.timestamps import FAR_OFF


class MemoryScheduler:
    """In-memory wake, lease and turns, safe for threads."""

    def __init__(self, changes: Callable[[], int]) -> None:
        """`changes`: how often something that people see has changed."""
        self._changes = changes
        self._lock = threading.Lock()
        self._turns: dict[str, int] = {}
        self._generation = 0
        self._holder = ""
        self._lease_until = 0
        self._seen_to: int | None = None

    def bump(self) -> int | None:
        with self._lock:
            self._generation += 1
            return self._lease_until if self._holder else None

    def take_lease(
        self, holder: str, *, now: int, until: int, only_news: bool = False, bump: bool = False
    ) -> int | None:
        with self._lock:
            self._generation += bump
            if only_news and self._seen_to == self._generation:
                return None
            if self._holder not in {"", holder} and now < self._lease_until <= until + FAR_OFF:
                return None
            self._holder, self._lease_until = holder, until
            return self._generation

    def end_lease(self, holder: str, *, generation: int | None) -> bool:
        with self._lock:
            if self._holder != holder or generation not in {None, self._generation}:
                return False
            self._holder, self._seen_to = "", generation or None
            return True

    def version(self) -> QueueVersion:
        with self._lock:
            until = self._lease_until if self._holder else 0
            return QueueVersion(text=f"{self._generation} {self._changes()}", busy_until=until)

    def announce(self) -> None:
        """Do nothing: each change has moved the version."""

    def take_turn(self, task: str, *, now: int, next_at: int) -> bool:
        with self._lock:
            if now < self._turns.get(task, now) <= next_at + FAR_OFF:
                return False
            self._turns[task] = next_at
            return True

    def next_turn(self, task: str) -> int | None:
        return self._turns.get(task)

    def postpone(self, task: str, *, next_at: int) -> None:
        with self._lock:
            self._turns[task] = next_at
