"""The assignment of jobs to pools that places as many jobs as possible."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence

from slotq_core.gpu_amounts import WHOLE, Gpus
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job

Room = tuple[Gpus, ...]
"""An amount of each GPU of a node, in any order."""


class NodeBins:
    """Nodes with room during an assignment: jobs of one tenant share them."""

    def __init__(self, gpus_in: Mapping[str, int], *, opens: bool = True) -> None:
        """`gpus_in`: the GPUs of an instance, by pool with nodes. `opens`: whether nodes start."""
        self._gpus_in, self._opens = gpus_in, opens
        self._left: dict[tuple[str, str], list[Room]] = {}
        """By pool and tenant, what each node has left of each GPU."""
        self.openers: set[str] = set()
        """The jobs for which a node starts."""

    def add(self, pool: str, tenant: str, left: Room) -> None:
        """Enter a node with so much left of each GPU."""
        self._left.setdefault((pool, tenant), []).append(left)

    def takes(self, job: Job, pool: str) -> bool:
        """Whether the job takes GPUs of nodes in the pool."""
        return bool(job.tenant) and 0 < job.gpus <= WHOLE * self._gpus_in.get(pool, 0)

    def left(self, job: Job, pool: str) -> Sequence[Room]:
        """What the nodes that the job may use have left."""
        return self._left.get((pool, job.tenant), ())

    def joined(self, job: Job, pools: Sequence[str]) -> str:
        """The pool of the fullest node with room, whose GPUs the job takes; empty: none has any."""
        found = [
            (sum(left), pool, left, rest)
            for pool in pools
            if self.takes(job, pool)
            for left in self.left(job, pool)
            if (rest := _without(left, job.gpus)) is not None
        ]
        if not found:
            return ""
        _, pool, left, rest = min(found, key=lambda node: node[0])
        nodes = self._left[pool, job.tenant]
        nodes.remove(left)
        nodes.append(rest)
        return pool

    def may_open(self, job: Job, pools: Sequence[str]) -> Sequence[str]:
        """The pools where the job may take an instance, whole or for a node."""
        return pools if self._opens else [name for name in pools if not self.takes(job, name)]

    def open(self, job: Job, pool: str) -> bool:
        """Start a node for the job, if it takes one in the pool. Return whether it does."""
        if not self.takes(job, pool):
            return False
        self.add(pool, job.tenant, (WHOLE,) * self._gpus_in[pool])
        self.joined(job, (pool,))
        self.openers.add(job.name)
        return True


def _without(left: Room, gpus: Gpus) -> Room | None:
    """The room with these GPUs gone; None: it has too little."""
    rest = sorted(left)
    if part := gpus % WHOLE:
        place = bisect_left(rest, part)
        if place == len(rest):
            return None
        rest[place] -= part
        return tuple(rest)
    if rest.count(WHOLE) < gpus // WHOLE:
        return None
    return (*rest[: len(rest) - gpus // WHOLE], *[0] * (gpus // WHOLE))


def assign(
    jobs: Sequence[Job],
    pools: Mapping[str, Sequence[str]],
    room: Mapping[str, Demand],
    bins: NodeBins | None = None,
) -> dict[str, str]:
    """By job name, a pool for each of as many jobs as fit, earlier jobs first: exact if all demands
    are equal (augmenting paths), else a heuristic.

    `pools`: by job name, the most welcome first. `room`: the capacity by pool. `bins`: the nodes,
    for jobs that take GPUs of some; these are packed in order.
    """
    if bins is not None:
        return _Assignment(jobs, pools, room).made_with(bins)
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

    def made_with(self, bins: NodeBins) -> dict[str, str]:
        self._pools = usable = dict(self._pools)
        for job in self._jobs:
            if pool := bins.joined(job, usable[job.name]) if job.gpus else "":
                self._at[job.name] = pool
                continue
            usable[job.name] = bins.may_open(job, usable[job.name])
            placed = self._place(job, set(), ())
            if placed and job.gpus and bins.open(job, self._at[job.name]):
                self._in[self._at[job.name]].remove(job)  # Others share its node: it stays.
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
