"""The jobs starting, running, or given slots in this plan, in all pools.

Stopping jobs hold slots as well, but cannot be evicted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from slotq_core.model.jobs import Job, JobState
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.state.candidates import NodeWithGangs, RunningGang, StartTimes
from slotq_core.policy.state.groups.gangs import LiveGang
from slotq_core.policy.state.journal import Journal
from slotq_core.policy.state.may_evict import BY_SETTING, MayEvict
from slotq_core.policy.state.pool_jobs import PoolJobs

if TYPE_CHECKING:
    from slotq_core.policy.state.nodes.nodes import Nodes


class RunningJobs:
    """The jobs by pool. A gang is evicted from all its pools: it is one candidate in each."""

    def __init__(
        self,
        snapshot: Snapshot,
        now: int,
        gangs: Mapping[str, LiveGang],
        journal: Journal,
        nodes: Nodes | None = None,
        *,
        may_evict: MayEvict = BY_SETTING,
    ) -> None:
        self._journal = journal
        starts = {pool.name: pool.health.start_time for pool in snapshot.pools} if gangs else {}
        self._gangs = {name: _running(gang, now, starts, may_evict) for name, gang in gangs.items()}
        if nodes is not None and nodes.members.on_nodes:
            self._gangs |= _on_nodes(self._gangs, nodes, now, starts, may_evict)
        self.pools = {
            pool.name: PoolJobs(pool, now, self._gangs, may_evict) for pool in snapshot.pools
        }
        self._minima = {p.name: p.min_runtime for p in snapshot.projects if p.min_runtime}
        for job in snapshot.active:
            there = self.pools.get(job.attempt.pool) if job.attempt else None
            if there is not None and job.attempt and job.state is not JobState.STOPPING:
                there.take_in(job, self._minima.get(job.project, 0))
                if job.group in self._gangs:
                    self._gangs[job.group].add(job, job.attempt.pool, 0)
        for gang in self._gangs.values():
            self._protect_whole(gang)
        if nodes is not None:
            for name in nodes.members.on_nodes:
                self._gangs[name].protected = nodes.members.spared(name)[0]
        for jobs in self.pools.values():
            jobs.all_taken_in()

    def protected_after_start(self) -> set[str]:
        """The names of candidates that a `min_runtime` will protect in their new slots."""
        return {
            name
            for jobs in self.pools.values()
            for job in jobs.safe.values()
            for name in self._protected_with(job)
        }

    def _protected_with(self, job: Job) -> tuple[str, ...]:
        gang = self._gangs.get(job.group)
        return gang.protected_with(job) if gang else (job.name,)

    def minimum(self, project: str) -> int:
        """The `min_runtime` of the project (ms)."""
        return self._minima.get(project, 0)

    def add(self, job: Job, pool: str) -> None:
        """Add a job that this plan gives slots in the pool."""
        self._journal.record(self._remove, job, pool)
        self._add(job, pool, self._journal.checkpoint())

    def remove(self, job: Job, pool: str) -> None:
        """Remove a job that this plan evicts, or that loses the slots this plan gave it."""
        self._journal.record(self._add, job, pool, self.pools[pool].placed.get(job.name, 0))
        self._remove(job, pool)

    def keep(self, job: Job) -> None:
        """Evict the job's gang no more in this plan, which starts the job on a node or beside
        members on nodes."""
        self._journal.record(self._forget_gangs, job)
        self._journal.set(self._gangs[job.group], "protected", value=True)
        self._forget_gangs(job)

    def is_kept(self, job: Job) -> bool:
        """Whether the job's gang is evicted no more in this plan."""
        return self._gangs[job.group].protected

    def _forget_gangs(self, job: Job) -> None:
        for gang in self._gangs.values():
            gang.is_known = False
        for jobs in self.pools.values():
            jobs.gang_has_changed(job.project)

    def _add(self, job: Job, pool: str, number: int) -> None:
        self.pools[pool].add(job, self._minima.get(job.project, 0), number)
        if job.group in self._gangs:
            self._gangs[job.group].add(job, pool, number)
            self._gang_has_changed(job)

    def _remove(self, job: Job, pool: str) -> None:
        self.pools[pool].remove(job)
        if job.group in self._gangs:
            self._gangs[job.group].remove(job, pool)
            self._gang_has_changed(job)

    def _gang_has_changed(self, job: Job) -> None:
        self._gangs[job.group].is_known = False
        for jobs in self.pools.values():
            jobs.gang_has_changed(job.project)

    def _protect_whole(self, gang: RunningGang) -> None:
        """Extend the protections of members to those that stop with them."""
        ends = {
            job.name: protected[0]
            for job, pool in gang.places
            if (protected := self.pools[pool].protections.pop(job.name, None))
        }
        until = gang.protect(ends)
        for job, pool in gang.places if until else ():
            if job.name in until:
                self.pools[pool].protections[job.name] = until[job.name], job


def _running(gang: LiveGang, now: int, starts: StartTimes, may_evict: MayEvict) -> RunningGang:
    if not gang.group.elastic:
        return RunningGang(gang.group.name, gang.ranked, now, starts, may_evict)
    # Most queues have no elastic gangs, and no cold start should pay for them.
    from slotq_core.policy.state.groups.elastic import ElasticGang

    return ElasticGang(gang, now, starts, may_evict)


def _on_nodes(
    gangs: Mapping[str, RunningGang],
    nodes: Nodes,
    now: int,
    starts: StartTimes,
    may_evict: MayEvict,
) -> dict[str, RunningGang]:
    """Tell the gangs their members on nodes. Return the nodes with members, each as a gang."""
    for name, places in nodes.members.on_nodes.items():
        gangs[name].on_nodes = places
    return {
        shown.group: NodeWithGangs(
            shown.name, [gangs[name] for name in nodes.members.on(key)], now, starts, may_evict
        )
        for key, shown in nodes.as_jobs.items()
        if shown.group
    }
