"""Users' limits as one more resource of each pool, so that whoever looks for pools for several jobs
at once (matching.py) keeps within them.

One for each user and class; an AUTO job may be of any class, and has what all of them leave.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job
from slotq_core.policy.state.user_limits import Rights

Left = Callable[[str, str, str], int | None]
"""Slots that are left to a user, in a class, in a pool; None: there is no limit."""

_NO_LIMIT = 1 << 40


class Bounded:
    """These jobs, and what limits leave to their users."""

    def __init__(self, jobs: Iterable[Job], rights: Rights, left: Left) -> None:
        self._left = left
        self._bound = {job.name: (job.submitter, tuple(rights.choices(job))) for job in jobs}
        self._users = set(self._bound.values())

    def counted(self, job: Job) -> Job:
        """The job, asking for its part of its user's limit, too."""
        part = Demand({_named(*self._bound[job.name]): job.demand.slots})
        return replace(job, demand=job.demand + part)

    def left(self, pool: str) -> Demand:
        """What their limits leave to all of these users there."""
        found = {}
        for user, choices in self._users:
            lefts = [self._left(user, its, pool) for its in choices]
            found[_named(user, choices)] = sum(_NO_LIMIT if n is None else n for n in lefts)
        return Demand(found)


def _named(user: str, choices: Iterable[str]) -> str:
    return f"{user} of {' '.join(choices)}"
