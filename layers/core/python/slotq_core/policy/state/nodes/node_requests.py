"""What waiting jobs with `gpus` ask for in their projects' requests: the instances they would need.

The jobs of one tenant are packed, the largest first, into the GPUs that its nodes have left and
then into new nodes. So sixty jobs of one GPU ask for eight instances of eight.

See docs/policy-decisions.md#nodes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from slotq_core.gpu_amounts import WHOLE, Gpus
from slotq_core.model.attempts import StopCause
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.nodes import MOST_JOBS
from slotq_core.model.pools import Pool, gpu_room, gpus_of
from slotq_core.model.projects import EVERYWHERE
from slotq_core.policy.state.nodes.node_jobs import NodeName, Occupied, for_one_person
from slotq_core.policy.state.nodes.node_room import ByGpu

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
        gangs: AbstractSet[str],
    ) -> None:
        """`pools`: those with nodes. `gangs`: the names of the gangs, whose members take whole
        instances."""
        self._pools, self._found, self._gangs = pools, found, gangs
        self._for_one_person = for_one_person(found)
        self._sizes: dict[Packed, Counter[int]] = defaultdict(Counter)
        """By size in GPUs, how many jobs wait."""

    def gather(self, job: Job, count: int, scope: str, usable: Sequence[str]) -> bool:
        """Take in waiting jobs that are all like this one. Return False if they take whole
        instances in this scope. `usable`: the pools that the jobs may use."""
        if not job.gpus or job.group in self._gangs:
            return False
        if job.claim and job.claim.node and (job.claim.pool, job.claim.node) in self._found:
            return True  # Its node is held for it.
        there = usable if scope == EVERYWHERE else (scope,)
        pool = next((name for name in there if self._takes(job, name)), None)
        if pool is None:
            return False
        person = job.person if (job.tenant, pool) in self._for_one_person else ""
        packed = job.project, scope, job.tenant, pool, person, job.demand
        self._sizes[packed][job.gpus] += count
        return True

    def _coming_back(self) -> Iterator[tuple[Job, str]]:
        """The stopping jobs on nodes that will wait again, each with its pool: shares stay the same
        meanwhile."""
        for (pool, _), found in self._found.items():
            for job in found.jobs:
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
        for (project, scope, tenant, pool, person, demand), sizes in self._sizes.items():
            left = [
                found.left
                for (name, _), found in self._found.items()
                if name == pool and found.node.tenant == tenant and not (found.empty or found.ends)
                if not found.node.one_person or found.person == person
            ]
            new = (WHOLE,) * gpus_of(self._pools[pool])
            yield (project, scope), demand, instances(sizes, left, new)

    def _takes(self, job: Job, pool: str) -> bool:
        kept = self._pools.get(pool)
        return bool(job.tenant and kept and job.gpus <= gpu_room(kept))


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
