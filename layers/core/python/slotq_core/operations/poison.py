"""What cannot be understood goes to the dead letters, with its reason. It stops nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from slotq_core.errors import SlotQError
from slotq_core.ports import DeadLetters, Poison, Store


class Nowhere(DeadLetters):
    """For queues without dead letters: simulations, tests."""

    def put(self, kind: str, subject: str, reason: str) -> None:
        pass


class Poisons:
    """Takes poison out of the way, and tells of each kind of it once in this process's life."""

    def __init__(self, store: Store, dead_letters: DeadLetters) -> None:
        self._store = store
        self._dead_letters = dead_letters
        self._told: set[tuple[str, str]] = set()

    def tell(self, kind: str, subject: str, reason: str) -> bool:
        """Put it among the dead letters; False where it is there already."""
        if (subject, reason) in self._told:
            return False
        self._told.add((subject, reason))
        self._dead_letters.put(kind, subject, reason)
        return True

    def quarantine(self, found: Iterable[Poison]) -> Iterator[str]:
        """Mend or remove each. Yields what is to be said of it."""
        for poison in found:
            if self.tell("item", poison.key, poison.reason):
                yield f"{poison.key}: {poison.reason}"
            try:
                self._store.quarantine(poison)
            except SlotQError as error:
                yield f"{poison.key}: could not be put out of the way: {error}"
