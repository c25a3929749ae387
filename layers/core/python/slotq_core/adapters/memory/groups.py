"""The groups that users have submitted, in memory (`ports.jobs.Groups`)."""

from __future__ import annotations

import threading
from dataclasses import replace

from slotq_core.errors import Conflict
from slotq_core.model.groups import Opening, StoredGroup


class MemoryGroups:
    """In-memory groups, safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[str, StoredGroup] = {}
        self._open: dict[str, Opening] = {}

    def get(self, name: str) -> StoredGroup | None:
        return self._kept.get(name)

    def open(self, name: str, *, digest: str, now: int) -> None:
        with self._lock:
            there = self._open.get(name)
            if there and (there.withdrawn or there.digest != digest):
                raise Conflict(f"another submission of group {name} is open")
            self._open[name] = Opening(name=name, digest=digest, at=now)

    def keep(self, stored: StoredGroup) -> None:
        name = stored.group.name
        with self._lock:
            there = self._open.get(name)
            if there is None or there.withdrawn or there.digest != stored.digest:
                raise Conflict(f"the submission of group {name} is not open")
            if name in self._kept:
                raise Conflict(f"there is a group {name}")
            self._kept[name] = stored

    def openings(self) -> tuple[Opening, ...]:
        with self._lock:
            return tuple(self._open.values())

    def withdraw(self, opening: Opening) -> None:
        with self._lock:
            if opening.name in self._kept or self._open.get(opening.name) != opening:
                raise Conflict(f"group {opening.name} has changed since it was read")
            self._open[opening.name] = replace(opening, withdrawn=True)

    def meet(self, name: str, *, job: str) -> None:
        with self._lock:
            self._kept[name] = replace(self._kept[name], met_by=job)

    def close(self, name: str) -> None:
        with self._lock:
            self._open.pop(name, None)
