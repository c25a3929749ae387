"""Send unreadable items and events to the dead letters, with the reason. They stop nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from slotq_core.errors import SlotQError
from slotq_core.ports.store import Repair
from slotq_core.ports.stored import Poison
from slotq_core.ports.surroundings import DeadLetters


class DiscardDeadLetters(DeadLetters):
    """Dead letters for queues that have none: simulations and tests."""

    def put(self, kind: str, subject: str, reason: str) -> None:
        pass


class Poisons:
    """Quarantines unreadable items, and reports each subject and reason once per process."""

    def __init__(self, repair: Repair, dead_letters: DeadLetters) -> None:
        self._repair = repair
        self._dead_letters = dead_letters
        self._reported: set[tuple[str, str]] = set()

    def report(self, kind: str, subject: str, reason: str) -> bool:
        """Send one letter to the dead letters. Return False if this process has sent the same
        before."""
        if (subject, reason) in self._reported:
            return False
        self._reported.add((subject, reason))
        self._dead_letters.put(kind, subject, reason)
        return True

    def quarantine(self, found: Iterable[Poison]) -> Iterator[str]:
        """Repair or set aside each item. Yield the messages to report."""
        for poison in found:
            if self.report("item", poison.key, poison.reason):
                yield f"{poison.key}: {poison.reason}"
            try:
                self._repair.quarantine(poison)
            except SlotQError as error:
                yield f"{poison.key}: could not be set aside: {error}"
