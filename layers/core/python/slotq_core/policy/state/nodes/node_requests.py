"""What waiting jobs with `gpus` ask for in their projects' requests: the instances they would need.

The jobs of one tenant are packed, the largest first, into the GPUs that its nodes have left and
then into new nodes. So sixty jobs of one GPU ask for eight instances of eight.

See docs/policy-decisions.md#nodes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from slotq_core.gpu_amounts import WHOLE, Gpus
from slotq_core.model.attempts import StopCause
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.nodes import MOST_JOBS
from slotq_core.model.pools import Pool, gpu_room, gpus_of
from slotq_core.model.projects import EVERYWHERE
from slotq_core.policy.state.nodes.node_jobs import NodeName, Occupied, for_one_person
from slotq_core.policy.state.nodes.node_room import ByGpu
from slotq_core.policy.state.nodes.own_amounts import SharedNodes

_COMES_BACK = frozenset({StopCause.EVICTED, StopCause.YIELDED})

Packed = tuple[str, str, str, str, str, Demand]
"""Project, scope, tenant, pool, the person where one person's jobs share a node (else empty), and
the demand of one instance."""


class NodeRequests:
    """The requests of one plan, gathered line by line."""

    def __init__(
        self,
        pools: Mapping[str, Pool],
        found: Mapping[NodeName, Occupied],
        shared: SharedNodes,
    ) -> None:
        """`pools`: those with nodes. `shared`: the nodes on which each job asks for its own
        amount."""
        self._pools, self._found, self._shared = pools, found, shared
        self._for_one_person = for_one_person(found)
        self._sizes: dict[Packed, Counter[int]] = defaultdict(Counter)
        """By size in GPUs, how many jobs wait."""

    def gather(self, job: Job, count: int, scope: str, usable: Sequence[str]) -> bool:
        """Take in waiting jobs that are all like this one. Return False if they take whole
        instances in this scope, or each their own part of one. `usable`: the pools that the jobs
        may use."""
        if not job.gpus:
            return False
        pool = self._pool_of(job, scope, usable)
        if self._shared.are_in(pool):
            return False
        if job.claim and job.claim.node and (job.claim.pool, job.claim.node) in self._found:
            return True  # Its node is held for it.
        if not self._takes(job, pool):
            return False
        person = job.person if (job.tenant, pool) in self._for_one_person else ""
        packed = job.project, scope, job.tenant, pool, person, job.demand
        self._sizes[packed][job.gpus] += count
        return True

    def alone(self, job: Job, scope: str, usable: Sequence[str]) -> Demand:
        """What a job that is not taken in asks for in the scope."""
        if not self._shared:
            return job.demand
        return self._shared.of(job, self._pool_of(job, scope, usable))

    def _pool_of(self, job: Job, scope: str, usable: Sequence[str]) -> str:
        """The pool for whose nodes such jobs ask in the scope: that of a claim, else the first of
        the usable ones that has nodes for them, else the first."""
        if job.claim and job.claim.node:
            return job.claim.pool
        there = usable if scope == EVERYWHERE else (scope,)
        return next((name for name in there if self._takes(job, name)), there[0])

    def _coming_back(self) -> Iterator[tuple[Job, str]]:
        """The stopping jobs on nodes that will wait again, each with its pool: shares stay the same
        meanwhile."""
        for (pool, _), found in self._found.items():
            for job in found.jobs if not self._shared.are_in(pool) else ():
                stop = job.attempt.stop if job.attempt else None
                if job.state is JobState.STOPPING and stop is not None:
                    stalled = stop.cause is StopCause.STALLED and job.retries
                    if stop.cause in _COMES_BACK or stalled:
                        yield job, pool

    def needed(
        self, scopes_of: Callable[[Sequence[str]], Sequence[str]]
    ) -> Iterator[tuple[tuple[str, str], Demand, int]]:
        """By project and scope, the demand of an instance and how many of them are needed. Read
        once all waiting jobs are gathered. `scopes_of`: the scopes that pools count in."""
        for job, pool in self._coming_back():
            for scope in scopes_of([pool]):
                self.gather(job, 1, scope, [pool])
        there: dict[tuple[str, str], list[Occupied]] = defaultdict(list)
        for (pool, _), found in self._found.items() if self._sizes else ():
            if not (found.empty or found.ends):
                there[found.node.tenant, pool].append(found)
        for (project, scope, tenant, pool, person, demand), sizes in self._sizes.items():
            left = [
                found.left
                for found in there.get((tenant, pool), ())
                if not found.node.one_person or found.person == person
            ]
            amount = demand * self._shared.per if self._shared else demand
            new = (WHOLE,) * gpus_of(self._pools[pool])
            yield (project, scope), amount, instances(sizes, left, new)

    def _takes(self, job: Job, pool: str) -> bool:
        kept = self._pools.get(pool)
        return bool(job.tenant and kept and job.gpus <= gpu_room(kept))


def packed(jobs: Iterable[Job], gpus_in: Mapping[str, int]) -> Demand:
    """What these jobs need together without any node: the instances of those that take GPUs of
    nodes, in their first pool with nodes, and the demands of the others. `gpus_in`: the GPUs of an
    instance, by pool with nodes."""
    needed: list[Demand] = []
    sizes: dict[tuple[str, str, Demand], Counter[Gpus]] = defaultdict(Counter)
    for job in jobs:
        fitting = (name for name in job.pools if 0 < job.gpus <= WHOLE * gpus_in.get(name, 0))
        pool = next(fitting, None) if job.tenant else None
        if pool is None:
            needed.append(job.demand)
        else:
            sizes[job.tenant, pool, job.demand][job.gpus] += 1
    for (_, pool, demand), of_tenant in sizes.items():
        needed += [demand] * instances(of_tenant, (), (WHOLE,) * gpus_in[pool])
    return Demand.total(needed)


def instances(sizes: Mapping[Gpus, int], left: Iterable[ByGpu], new: ByGpu) -> int:
    """How many new instances the jobs need. `sizes`: by size, at most an instance's, the number of
    jobs. `left`: what nodes have left of each GPU, which is filled first; `new`: what a new one
    has."""
    waiting = {size: sizes[size] for size in sorted(sizes, reverse=True) if sizes[size]}
    for room in sorted(left, key=sum):
        _take(waiting, _filling(waiting, room), 1)
    needed = 0
    while waiting:
        filling = _filling(waiting, new)
        alike = min(waiting[size] // count for size, count in filling.items())
        _take(waiting, filling, alike)
        needed += alike
    return needed


def _filling(waiting: Mapping[Gpus, int], room: ByGpu) -> dict[Gpus, int]:
    """By size, the jobs that fill a node, the largest first: whole GPUs, then parts of what is left
    of each."""
    filling: dict[Gpus, int] = {}
    gpus, places = sorted(room), MOST_JOBS
    for size, count in waiting.items():
        fits = 0
        if size % WHOLE == 0:
            each = size // WHOLE
            fits = min(count, gpus.count(WHOLE) // each, places)
            del gpus[len(gpus) - fits * each :]
        else:
            for index, amount in enumerate(gpus):
                more = min(count - fits, amount // size, places - fits)
                if more > 0:
                    gpus[index] -= more * size
                    fits += more
            gpus.sort()
        if fits:
            filling[size] = fits
            places -= fits
    return filling


def _take(waiting: dict[int, int], filling: Mapping[int, int], times: int) -> None:
    for size, count in filling.items():
        waiting[size] -= count * times
        if not waiting[size]:
            del waiting[size]
