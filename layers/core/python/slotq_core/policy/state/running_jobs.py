"""The jobs starting, running, or given slots in this plan, in all pools.

Stopping jobs hold slots as well, but nobody can evict them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from slotq_core.model.jobs import Job, JobState
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.state.candidates import Candidate, Place, candidate_of, may_be_stopped
from slotq_core.policy.state.groups.gangs import Gang
from slotq_core.policy.state.journal import Journal
from slotq_core.policy.state.pool_jobs import PoolJobs


class RunningJobs:
    """The jobs by pool. A gang is evicted from all its pools: it is one candidate in each."""

    def __init__(
        self, snapshot: Snapshot, now: int, gangs: Mapping[str, Gang], journal: Journal
    ) -> None:
        self._now, self._journal = now, journal
        regroup = self._regroup if gangs else None
        self.pools = {pool.name: PoolJobs(pool, now, regroup) for pool in snapshot.pools}
        self._minima = {p.name: p.min_runtime for p in snapshot.projects if p.min_runtime}
        self._gangs = {name: _RunningGang(gang.ranked) for name, gang in gangs.items()}
        self._stale = set(self._gangs)
        """The gangs with members that have come or gone."""
        plain = not self._gangs and not self._minima
        for job in snapshot.active:
            there = self.pools.get(job.attempt.pool) if job.attempt else None
            if there is None or job.state is JobState.STOPPING:
                continue
            if plain:
                there.take_in(job)
            else:
                self._take_in(job, there)
        for gang in self._gangs.values():
            for until, (job, pool) in gang.protections():
                self.pools[pool].protections.append((until, job))
        for jobs in self.pools.values():
            jobs.all_taken_in()

    def protected_after_start(self) -> set[str]:
        """The names of candidates that a `min_runtime` will protect in their new slots."""
        return {
            job.group if job.group in self._gangs else job.name
            for jobs in self.pools.values()
            for job in jobs.safe.values()
        }

    def add(self, job: Job, pool: str) -> None:
        """Add a job that this plan gives slots in the pool."""
        self._journal.record(self._remove, job, pool)
        self._add(job, pool)

    def remove(self, job: Job, pool: str) -> None:
        """Remove a job that this plan evicts, or that loses the slots this plan gave it."""
        self._journal.record(self._add, job, pool)
        self._remove(job, pool)

    def _add(self, job: Job, pool: str) -> None:
        in_gang = job.group in self._gangs
        self.pools[pool].add(job, self._minima.get(job.project, 0), in_gang=in_gang)
        if in_gang:
            self._gangs[job.group].places.append((job, pool))
            self._stale.add(job.group)

    def _remove(self, job: Job, pool: str) -> None:
        self.pools[pool].remove(job)
        if job.group in self._gangs:
            self._gangs[job.group].places.remove((job, pool))
            self._stale.add(job.group)

    def _take_in(self, job: Job, pool: PoolJobs) -> None:
        gang = self._gangs.get(job.group)
        minimum = self._minima.get(job.project, 0)
        protection = pool.take_in(job, minimum, in_gang=gang is not None)
        if gang is not None:
            gang.places.append((job, pool.name))
            gang.ends += [protection[0]] if protection else []

    def _regroup(self) -> None:
        """Replace the candidates of changed gangs. Runs on request, as members change singly."""
        while self._stale:
            self._offer_anew(self._stale.pop())

    def _offer_anew(self, name: str) -> None:
        gang = self._gangs[name]
        if gang.candidate:
            for pool in gang.candidate.pools:
                self.pools[pool].withdraw(gang.candidate)
        gang.candidate = gang.as_one(name, self._now)
        if gang.candidate:
            for pool in gang.candidate.pools:
                self.pools[pool].offer(gang.candidate)


class _RunningGang:
    """The running members of one gang."""

    def __init__(self, ranked: Sequence[Job]) -> None:
        self._ranked = ranked
        """Also members that may yet join, so that a join changes nothing."""
        self.places: list[Place] = []
        self.ends: list[int | None] = []
        """The ends of the members' protections."""
        self.candidate: Candidate | None = None
        """The gang as a candidate."""

    def as_one(self, name: str, now: int) -> Candidate | None:
        """The whole gang as one candidate; None unless every member may be stopped."""
        if not self.places or self.ends or not self._may_be_stopped():
            return None
        return candidate_of(self.places, name, now, gang=True, ranked=self._ranked)

    def protections(self) -> Iterator[tuple[int | None, Place]]:
        """Yield each place of a protected gang with the end of the last protection (ms)."""
        if self.ends and self._may_be_stopped():
            known = [end for end in self.ends if end is not None]
            until = max(known) if len(known) == len(self.ends) else None
            for place in self.places:
                yield until, place

    def _may_be_stopped(self) -> bool:
        return all(may_be_stopped(job) for job, _ in self.places)
