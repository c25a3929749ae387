"""The jobs that hold slots, and the candidates among them, during one plan.

The jobs are kept by pool and project, as an eviction looks them up. One object covers all pools,
because a gang with slots in several pools is evicted from all of them: it is one candidate in each.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Iterator, KeysView, Mapping, Sequence
from operator import attrgetter

from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.pools import Pool
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.order import Rank, rank
from slotq_core.policy.state.candidates import (
    Candidate,
    Place,
    alone,
    candidate_of,
    is_safe_once_started,
    may_be_stopped,
    protection,
)
from slotq_core.policy.state.gangs import Gang

Protection = tuple[int | None, Job]
"""The end of a `min_runtime` (ms), and the job inside it; None: the job has still to start."""

_order = attrgetter("order")


class RunningJobs:
    """The jobs starting, running, or given slots in this plan.

    Stopping jobs hold slots as well, but nobody can evict them.
    """

    def __init__(self, snapshot: Snapshot, now: int, gangs: Mapping[str, Gang]) -> None:
        self._now = now
        names = [pool.name for pool in snapshot.pools]
        self._running: dict[str, dict[str, dict[str, Job]]] = {name: {} for name in names}
        self._stakes: dict[str, dict[str, list[Candidate]]] = {name: {} for name in names}
        self._protections: dict[str, list[Protection]] = {name: [] for name in names}
        self._held_below: dict[tuple[Rank, str, str], Demand] = {}
        """Computed for reasons, until a job comes or goes."""
        self._unsorted: dict[tuple[str, str], list[Job]] = {}
        """By pool and project, the single jobs that may be stopped but have not been asked for.

        They become candidates when first needed, and most never are.
        """
        self._lowest: dict[tuple[str, str], Rank] = {}
        """The lowest rank of these jobs, once needed."""
        self._alone: dict[str, Candidate] = {}
        """The candidates that are single jobs, by job name."""
        self._gangs = {name: _Gang(gang.ranked) for name, gang in gangs.items()}
        self._pools = {pool.name: pool for pool in snapshot.pools}
        self._minima = {p.name: p.min_runtime for p in snapshot.projects if p.min_runtime}
        self._safe_once_started: dict[str, str] = {}
        """By job that this plan starts under a `min_runtime`, the name of its candidate."""
        self._done: list[tuple[Callable[[Job, str], None], Place]] = []
        """The inverse of each change, for a rollback."""
        self._stale: set[str] = set()
        """The gangs with members that have come or gone."""
        self._begin(snapshot)
        for gang in self._gangs.values():
            for until, (job, pool) in gang.protections():
                self._protections[pool].append((until, job))
        for protections in self._protections.values():
            protections.sort(key=_first_to_end)

    def running(self, pool: str, project: str) -> Iterable[Job]:
        """The project's jobs in the pool."""
        return self._running[pool].get(project, {}).values()

    def everyone(self, pool: str) -> Iterator[Job]:
        """All jobs that start or run in the pool, or got slots there in this plan."""
        for jobs in self._running[pool].values():
            yield from jobs.values()

    def held_below(self, than: Rank, pool: str, project: str) -> Demand:
        """What the project's jobs of a lower rank hold in the pool."""
        key = (than, pool, project)
        if key not in self._held_below:
            below = (job for job in self.running(pool, project) if rank(job) < than)
            self._held_below[key] = Demand.total(job.demand for job in below)
        return self._held_below[key]

    def candidates(self, pool: str, project: str) -> Sequence[Candidate]:
        """The project's candidates in the pool, in the order of eviction."""
        self._regroup()
        self._sort(pool, project)
        return self._stakes[pool].get(project, ())

    def lowest(self, pool: str, project: str) -> Rank | None:
        """The lowest rank of the project's candidates in the pool; None if there are none."""
        self._regroup()
        candidates = self._stakes[pool].get(project)
        if candidates is None:
            return None
        ranks = [candidates[0].rank] if candidates else []
        if (pool, project) in self._unsorted:
            ranks.append(self._lowest_unsorted(pool, project))
        return min(ranks)

    def may_give(self, pool: str) -> KeysView[str]:
        """The projects that have candidates in the pool."""
        self._regroup()
        return self._stakes[pool].keys()

    def protected_after_start(self) -> set[str]:
        """The names of candidates that will be protected once this plan is carried out.

        A `min_runtime` protects the slots that they got in this plan.
        """
        return set(self._safe_once_started.values())

    def protections(self, pool: str) -> Sequence[Protection]:
        """The protections in the pool, the first to end first.

        A gang is protected as long as any of its jobs is.
        """
        return self._protections[pool]

    def add(self, job: Job, pool: str) -> None:
        """Add a job that this plan gives slots in the pool."""
        self._done.append((self._remove, (job, pool)))
        self._add(job, pool)

    def remove(self, job: Job, pool: str) -> None:
        """Remove a job that this plan evicts, or that loses the slots this plan gave it."""
        self._done.append((self._add, (job, pool)))
        self._remove(job, pool)

    def mark(self) -> int:
        """A checkpoint for `back_to`."""
        return len(self._done)

    def back_to(self, mark: int) -> None:
        """Roll back to the mark."""
        while len(self._done) > mark:
            undo, place = self._done.pop()
            undo(*place)

    def _add(self, job: Job, pool: str) -> None:
        self._hold(job, pool)
        if is_safe_once_started(job, self._pools[pool], self._minima.get(job.project, 0)):
            its = job.group if job.group in self._gangs else job.name
            self._safe_once_started[job.name] = its
        if job.group in self._gangs:
            self._stale.add(job.group)
        elif not job.evictable or self._is_kept_safe(job):
            return
        elif (pool, job.project) in self._unsorted:
            self._unsorted[pool, job.project].append(job)
            self._lowest.pop((pool, job.project), None)
        else:
            self._offer(self._single(job, pool))

    def _is_kept_safe(self, job: Job) -> bool:
        """Whether the job starts in its destination pool under a `min_runtime`.

        Nobody may take the room before the start, so nobody may take it at that moment.
        """
        return job.claim is not None and job.claim.moved and job.name in self._safe_once_started

    def _remove(self, job: Job, pool: str) -> None:
        self._sort(pool, job.project)
        self._held_below.clear()
        del self._running[pool][job.project][job.name]
        self._safe_once_started.pop(job.name, None)
        if job.group in self._gangs:
            self._gangs[job.group].places.remove((job, pool))
            self._stale.add(job.group)
        elif job.name in self._alone:
            self._withdraw(self._alone.pop(job.name))

    def _begin(self, snapshot: Snapshot) -> None:
        for job in snapshot.active:
            if job.attempt is None or job.state is JobState.STOPPING:
                continue
            pool = self._pools.get(job.attempt.pool)
            if pool is not None:
                self._take_in(job, pool, self._minima.get(job.project, 0))

    def _take_in(self, job: Job, pool: Pool, project_min: int) -> None:
        self._hold(job, pool.name)
        protected, until = protection(job, pool, project_min, self._now)
        if job.group in self._gangs:
            self._stale.add(job.group)
            if protected:
                self._gangs[job.group].ends.append(until)
        elif protected:
            self._protections[pool.name].append((until, job))
        elif may_be_stopped(job):
            self._stakes[pool.name].setdefault(job.project, [])
            self._unsorted.setdefault((pool.name, job.project), []).append(job)

    def _lowest_unsorted(self, pool: str, project: str) -> Rank:
        found = self._lowest.get((pool, project))
        if found is None:
            jobs = self._unsorted[pool, project]
            found = self._lowest[pool, project] = min(rank(job) for job in jobs)
        return found

    def _sort(self, pool: str, project: str) -> None:
        """Turn the remaining single jobs of the pool and project into candidates."""
        if jobs := self._unsorted.pop((pool, project), None):
            candidates = [*self._stakes[pool][project], *(self._single(job, pool) for job in jobs)]
            self._stakes[pool][project] = sorted(candidates, key=_order)

    def _single(self, job: Job, pool: str) -> Candidate:
        self._alone[job.name] = alone(job, pool, self._now)
        return self._alone[job.name]

    def _hold(self, job: Job, pool: str) -> None:
        self._held_below.clear()
        self._running[pool].setdefault(job.project, {})[job.name] = job
        if job.group in self._gangs:
            self._gangs[job.group].places.append((job, pool))

    def _regroup(self) -> None:
        """Rebuild the candidates of changed gangs. Runs on request, as members change singly."""
        if not self._stale:
            return
        for name in sorted(self._stale):
            gang = self._gangs[name]
            if gang.candidate:
                self._withdraw(gang.candidate)
            gang.candidate = gang.as_one(name, self._now)
            if gang.candidate:
                self._offer(gang.candidate)
        self._stale.clear()

    def _offer(self, candidate: Candidate) -> None:
        for pool in candidate.pools:
            insort(self._stakes[pool].setdefault(candidate.project, []), candidate, key=_order)

    def _withdraw(self, candidate: Candidate) -> None:
        for pool in candidate.pools:
            self._sort(pool, candidate.project)
            others = [
                each for each in self._stakes[pool][candidate.project] if each is not candidate
            ]
            if others:
                self._stakes[pool][candidate.project] = others
            else:
                del self._stakes[pool][candidate.project]


class _Gang:
    """The running members of one gang."""

    def __init__(self, ranked: Sequence[Job]) -> None:
        self._ranked = ranked
        """The members with a known rank, also those that may yet join. So a join changes
        nothing."""
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

    def protections(self) -> Iterable[tuple[int | None, Place]]:
        """Yield each place of a protected gang with the end of the last protection (ms)."""
        if self.ends and self._may_be_stopped():
            known = [end for end in self.ends if end is not None]
            until = max(known) if len(known) == len(self.ends) else None
            for place in self.places:
                yield until, place

    def _may_be_stopped(self) -> bool:
        return all(may_be_stopped(job) for job, _ in self.places)


def _first_to_end(protection: Protection) -> tuple[bool, int, str]:
    until, job = protection
    return (until is None, until or 0, job.name)
