"""What jobs hold themselves where nodes exist, in whole numbers of parts.

A job on a node holds its GPUs, of those of the node, of each resource of the instance. All other
jobs hold their demand. A unit of each resource has `per` parts.

See docs/policy-decisions.md#nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from math import lcm

from slotq_core.gpu_amounts import WHOLE
from slotq_core.lifecycle import copied
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.pools import Pool, gpu_room
from slotq_core.model.projects import Department, Project
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.state.groups.gangs import JointJob
from slotq_core.policy.state.nodes.node_jobs import NodeName, Occupied


class OwnAmounts:
    """The amounts that jobs hold, claim or ask for in one plan."""

    def __init__(
        self,
        pools: Mapping[str, Pool],
        found: Mapping[NodeName, Occupied],
    ) -> None:
        """`pools`: those with nodes."""
        self._gpus = {name: gpus for name, pool in pools.items() if (gpus := gpu_room(pool))}
        self.per = lcm(
            *self._gpus.values(), *(WHOLE * max(1, on_it.gpus) for on_it in found.values())
        )

    def of(self, job: Job, pool: str) -> Demand:
        """What the job holds, claims or asks for in the pool, in parts."""
        held, whole = job.gpus, self._gpus.get(pool, 0)
        if job.attempt is not None:
            held = job.gpus if job.attempt.node else 0
            whole = WHOLE * job.attempt.node_gpus or whole
        elif not job.tenant:
            held = 0
        if not held or held > whole or self.per % whole:
            return job.demand * self.per
        return job.demand * (self.per // whole * held)


class SharedNodes:
    """The amounts in quotas and fair shares where projects share the nodes of some pools
    (`share: pool`). There each job on a node counts what it holds itself, for its own project. All
    amounts of all accounts are then in parts."""

    def __init__(
        self,
        pools: Mapping[str, Pool],
        found: Mapping[NodeName, Occupied],
        without_nodes: Mapping[str, AbstractSet[str]],
    ) -> None:
        """`pools`: those with nodes. `without_nodes`: by pool, the tenants whose jobs take whole
        instances for a while."""
        self._own = OwnAmounts(pools, found)
        self.per = self._own.per
        self._without_nodes = without_nodes
        self._pools = {name for name, pool in pools.items() if pool.nodes and pool.nodes.shared}
        self._jobs_of = {
            f"{pool}/{name}": on_it.jobs
            for (pool, name), on_it in found.items()
            if pool in self._pools
        }
        """By name of the job that stands for a node of these pools."""

    def __bool__(self) -> bool:
        """Whether projects share the nodes of any pool."""
        return bool(self._pools)

    def are_in(self, pool: str) -> bool:
        """Whether projects share the pool's nodes."""
        return pool in self._pools

    def of(self, job: Job, pool: str) -> Demand:
        """What the job counts in the accounts of the pool, or all jobs on the node, or members of
        the gang, that it stands for."""
        if isinstance(job, JointJob):
            return Demand.total(self.of(member, pool) for member in job.members)
        if job.name in self._jobs_of:
            return Demand.total(self._own.of(on_it, pool) for on_it in self.holders(job))
        if not self.are_in(pool) or not job.gpus:
            return job.demand * self.per
        if job.attempt is None and job.tenant in self._without_nodes.get(pool, ()):
            return job.demand * self.per
        return self._own.of(job, pool)

    def in_units(self, parts: int) -> int | float:
        """The amount in units, at most four decimals."""
        return parts // self.per if parts % self.per == 0 else round(parts / self.per, 4)

    def holders(self, job: Job) -> Iterable[Job]:
        """The jobs that go on on the node for which the job stands, else the job itself."""
        on_it = self._jobs_of.get(job.name)
        if on_it is None:
            return (job,)
        return [holder for holder in on_it if holder.state is not JobState.STOPPING]

    def seen(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with amounts in parts, and with the jobs on shared nodes in place of those
        that stand for these nodes."""
        return copied(
            snapshot,
            active=tuple(self._each_by_itself(snapshot.active)),
            pools=tuple(
                copied(pool, capacity=pool.capacity * self.per, foreign=pool.foreign * self.per)
                for pool in snapshot.pools
            ),
            projects=tuple(map(self._in_parts, snapshot.projects)),
            departments=tuple(map(self._in_parts, snapshot.departments)),
        )

    def _each_by_itself(self, jobs: Iterable[Job]) -> Iterator[Job]:
        for job in jobs:
            yield from self._jobs_of.get(job.name, (job,))

    def _in_parts(self, owner: Project | Department) -> Project | Department:
        """The project or department with its amounts, and its weights for their sake, in parts."""
        weight, per = owner.weight, self.per
        if isinstance(weight, int):
            weight = weight * per
        elif weight is not None:
            weight = {name: part * per for name, part in weight.items()}
        return copied(
            owner,
            weight=weight,
            quota=owner.quota and {scope: amount * per for scope, amount in owner.quota.items()},
            limit={
                scope: {name: most * per for name, most in limit.items()}
                for scope, limit in owner.limit.items()
            },
        )
