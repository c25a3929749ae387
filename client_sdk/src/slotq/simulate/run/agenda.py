"""What is due when, on a virtual clock."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import NamedTuple

from slotq_core.model.jobs import Job


class Due(IntEnum):
    """The kinds of things due at a moment, in the order of handling."""

    END = 0
    """Work that ends at the moment of its stop has ended: completed always wins."""
    STOPPED = 1
    WAITED = 2
    """An attempt has waited for spot instances for too long."""
    INSTANCES = 3
    """The spot instances of an attempt come."""
    TAKEN = 4
    """SageMaker takes the spot instances of an attempt back."""
    CHANGE = 5
    """A change of a pool. Jobs that arrive at the same moment find the pool changed."""
    SUBMIT = 6
    CANCEL = 7
    SILENT = 8
    """An attempt has reported nothing for its pool's `stall_after`, or its group's heartbeat."""
    NODE = 9
    """A node is ready."""
    WARM = 10
    """Warm instances go."""
    PASS = 11
    GRACE = 12
    """The end of a grace where a stop takes no time: the queue stops the job after its pass."""


def silences(job: Job, silent_from: int | None, limits: Iterable[int | None]) -> Iterator[int]:
    """When the running attempt has been silent for each of these limits: its pool's `stall_after`
    and its group's heartbeat (ms)."""
    since = job.attempt.running_since if job.attempt else None
    if since is None or silent_from is None or job.attempt is None:
        return
    last = max(since + silent_from, job.attempt.resumed_at or since)
    for limit in limits:
        if limit is not None:
            yield max(0, last + limit)


class AgendaEntry(NamedTuple):
    at: int
    """Milliseconds."""
    due: Due
    rank: int
    """The order of entries of one kind at one moment: jobs after others enter after these."""
    name: str
    """The job's or the pool's."""
    number: int
    """The attempt's or the change's."""


class Agenda:
    """Entries in the order of their moments, then of their kinds."""

    def __init__(self) -> None:
        self._entries: list[AgendaEntry] = []

    def put(
        self, at: int | None, due: Due, name: str = "", number: int = 0, *, rank: int = 0
    ) -> None:
        """Add an entry; with None, nothing."""
        if at is not None:
            heapq.heappush(self._entries, AgendaEntry(at, due, rank, name, number))

    def next_at(self) -> int | None:
        """The earliest moment with an entry; None if the agenda is empty."""
        return self._entries[0].at if self._entries else None

    def take(self, at: int, *, last: Due = Due.PASS) -> Iterator[AgendaEntry]:
        """Remove and yield the entries of a moment up to kind `last`, also those added
        meanwhile."""
        while self._entries and self._entries[0].at == at and self._entries[0].due <= last:
            yield heapq.heappop(self._entries)
