"""How many jobs may hold slots at once, whatever room there is (DESIGN 5.4).

"`max_jobs` (checked first, consumes no attempt)": a job kept back by it is not tried. So it evicts
nothing, drains nothing, and has not failed an attempt.

What is owed slots by a claim counts as holding them. A gang counts as one.
"""

from __future__ import annotations

from collections import Counter

from slotq_core.model import Job, Snapshot
from slotq_core.reasons import JobLimitReached, Reason


class Parallel:
    """The counts of one plan. They grow as the walk gives jobs their slots."""

    def __init__(self, snapshot: Snapshot) -> None:
        settings = snapshot.scheduler
        self._max_jobs = settings.max_jobs if settings else None
        self._units: Counter[tuple[str, str]] = Counter()
        """How many jobs of each unit hold slots or are owed them."""
        for job in (*snapshot.active, *(each for each in snapshot.waiting if each.claim)):
            self.take(job)

    def take(self, job: Job) -> None:
        self._units[_unit(job)] += 1

    def give_back(self, job: Job) -> None:
        unit = _unit(job)
        self._units[unit] -= 1
        if not self._units[unit]:
            del self._units[unit]

    def state(self) -> Counter[tuple[str, str]]:
        """For `back_to`."""
        return self._units.copy()

    def back_to(self, state: Counter[tuple[str, str]]) -> None:
        self._units = state.copy()

    def keeps_back(self, job: Job) -> Reason | None:
        """Why the job is not even tried; None where it is."""
        if job.claim or self._max_jobs is None or self._units[_unit(job)]:
            return None
        if len(self._units) < self._max_jobs:
            return None
        return JobLimitReached(active=len(self._units), limit=self._max_jobs)


def _unit(job: Job) -> tuple[str, str]:
    """What counts as one."""
    return ("group", job.group) if job.group else ("job", job.name)
