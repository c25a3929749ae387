"""Limits of users as extra resources of each pool, for the assignment of jobs (matching.py).

One resource for each user and set of possible classes: an AUTO job may be of any class, and its
resource is what all classes leave together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job
from slotq_core.policy.state.user_limits import Rights

Left = Callable[[str, str, str], int | None]
"""The slots left to a user in a class and a pool; None: no limit."""

_NO_LIMIT = 1 << 40


class Bounded:
    """The extra resources of these jobs."""

    def __init__(self, jobs: Iterable[Job], rights: Rights, left: Left) -> None:
        self._left = left
        self._bound = {job.name: (job.person, tuple(rights.choices(job))) for job in jobs}
        self._users = set(self._bound.values())

    def counted(self, job: Job) -> Job:
        """The job with its part of the user's limit in its demand."""
        part = Demand({_named(*self._bound[job.name]): job.demand.slots})
        return replace(job, demand=job.demand + part)

    def left(self, pool: str) -> Demand:
        """What the limits leave to all of these users in the pool."""
        found = {}
        for user, choices in self._users:
            lefts = [self._left(user, class_name, pool) for class_name in choices]
            found[_named(user, choices)] = sum(_NO_LIMIT if n is None else n for n in lefts)
        return Demand(found)


def _named(user: str, choices: Iterable[str]) -> str:
    return f"{user} of {' '.join(choices)}"
