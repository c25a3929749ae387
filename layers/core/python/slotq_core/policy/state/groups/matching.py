"""The assignment of jobs to pools that places as many jobs as possible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job


def assign(
    jobs: Sequence[Job], pools: Mapping[str, Sequence[str]], room: Mapping[str, Demand]
) -> dict[str, str]:
    """By job name, a pool for each of as many jobs as fit, earlier jobs first: exact if all demands
    are equal (augmenting paths), else a heuristic.

    `pools`: by job name, the most welcome first. `room`: the capacity by pool.
    """
    return _Assignment(jobs, pools, room).made()


class _Assignment:
    def __init__(
        self, jobs: Sequence[Job], pools: Mapping[str, Sequence[str]], room: Mapping[str, Demand]
    ) -> None:
        self._jobs, self._pools = jobs, pools
        self._left = dict(room)
        self._at: dict[str, str] = {}
        self._in: dict[str, list[Job]] = {name: [] for name in room}

    def made(self) -> dict[str, str]:
        for job in self._jobs:
            self._place(job, set(), ())
        return self._at

    def _place(self, job: Job, tried: set[str], vacated: tuple[str, ...]) -> bool:
        """`tried`: pools already searched for room. `vacated`: pools making room for another
        job."""
        pools = self._pools[job.name]
        for pool in pools:
            if pool not in vacated and job.demand.within(self._left[pool]):
                self._put(job, pool)
                return True
        for pool in pools:
            if pool not in tried:
                tried.add(pool)
                if self._make_room(job, pool, tried, vacated):
                    self._put(job, pool)
                    return True
        return False

    def _make_room(self, job: Job, pool: str, tried: set[str], vacated: tuple[str, ...]) -> bool:
        for other in list(self._in[pool]):
            if job.demand.within(self._left[pool] + other.demand):
                self._take(other, pool)
                if self._place(other, tried, (*vacated, pool)):
                    return True
                self._put(other, pool)
        return False

    def _put(self, job: Job, pool: str) -> None:
        self._left[pool] = self._left[pool] - job.demand
        self._at[job.name] = pool
        self._in[pool].append(job)

    def _take(self, job: Job, pool: str) -> None:
        self._left[pool] = self._left[pool] + job.demand
        del self._at[job.name]
        self._in[pool].remove(job)
