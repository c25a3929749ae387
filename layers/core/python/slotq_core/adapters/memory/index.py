"""The in-memory store's index for a pass: ordered lines, claimants, active jobs, and jobs that wait
for a time. The index saves a scan of all jobs."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Iterator
from typing import TypeVar

from slotq_core.model.jobs import Job
from slotq_core.policy.lines import Line, line_of
from slotq_core.policy.order import Yields
from slotq_core.storage.order_keys import key_after, order_key

K = TypeVar("K")
Place = tuple[str, str]
"""(order key, name)"""


class Index:
    """Job names, by the groups that a pass reads."""

    def __init__(self) -> None:
        self.claimants: set[str] = set()
        self.active: set[str] = set()
        self._lines: dict[str, list[Place]] = {}
        self._due: list[tuple[int, str]] = []
        self._after: dict[str, set[str]] = defaultdict(set)

    def keep(self, job: Job) -> None:
        if job.waits:
            insort(self._lines.setdefault(line_of(job), []), (order_key(job), job.name))
        if job.waits and job.claim:
            self.claimants.add(job.name)
        if job.active:
            self.active.add(job.name)
        if (at := _due_at(job)) is not None:
            insort(self._due, (at, job.name))
        for awaited in job.waits_for:
            self._after[awaited].add(job.name)

    def forget(self, job: Job) -> None:
        """Remove a job. `job` must be as it was stored."""
        self.active.discard(job.name)
        self.claimants.discard(job.name)
        if job.waits:
            _take(self._lines[line_of(job)], (order_key(job), job.name))
        if (at := _due_at(job)) is not None:
            _take(self._due, (at, job.name))
        for awaited in job.waits_for:
            self._after[awaited].discard(job.name)

    def lines(self) -> list[str]:
        """Return the lines with waiting jobs, and delete empty lines."""
        for line in [line for line, places in self._lines.items() if not places]:
            del self._lines[line]
        return list(self._lines)

    def behind(self, line: str, after: Place | None) -> Iterator[str]:
        """Yield the jobs of a line behind this place (None: all), without the claimants."""
        places = self._lines.get(line, [])
        begin = 0 if after is None else bisect_right(places, after)
        return (name for _, name in places[begin:] if name not in self.claimants)

    def waiting(self) -> Iterator[str]:
        """Return every job in a line."""
        return (name for places in self._lines.values() for _, name in places)

    def due(self, most: int | None = None) -> Iterator[str]:
        """Return the jobs that wait for a time, and those whose end is still to be handed on: the
        earliest first, at most `most`."""
        return (name for _, name in self._due[:most])

    def followers(self, awaited: str) -> list[str]:
        """Return the jobs that wait for this one."""
        return sorted(self._after.get(awaited, ()))

    def ahead_of(self, job: Job, yields: Yields) -> int:
        """Return how many jobs wait ahead of this job in the lines of its pools."""
        own, found = line_of(job), 0
        for name, places in self._lines.items():
            line = Line.parse(name)
            if set(job.pools) & set(line.pools):
                key = order_key(job) if name == own else key_after(job, line, yields)
                found += bisect_left(places, (key, ""))
        return found


def _due_at(job: Job) -> int | None:
    return job.changed_at if job.terminal and job.followed else job.not_before


def _take(ordered: list[tuple[K, str]], place: tuple[K, str]) -> None:
    at = bisect_left(ordered, place)
    assert ordered[at] == place
    del ordered[at]
