"""Who holds slots, and what of it may be stopped together, during one plan.

Kept by pool and project, because whoever evicts asks for these; and one for all pools, because a
gang that holds slots in several is evicted from all of them: it is one candidate in each.
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
"""A job inside a `min_runtime`, and until when; None: from a start that is yet to come."""

_order = attrgetter("order")


class RunningJobs:
    """What is starting or running, or was given slots in this plan. What is stopping holds slots
    too, but is nobody's to evict."""

    def __init__(self, snapshot: Snapshot, now: int, gangs: Mapping[str, Gang]) -> None:
        self._now = now
        names = [pool.name for pool in snapshot.pools]
        self._running: dict[str, dict[str, dict[str, Job]]] = {name: {} for name in names}
        self._stakes: dict[str, dict[str, list[Candidate]]] = {name: {} for name in names}
        self._protections: dict[str, list[Protection]] = {name: [] for name in names}
        self._held_below: dict[tuple[Rank, str, str], Demand] = {}
        """Made for reasons, until somebody comes or goes."""
        self._unsorted: dict[tuple[str, str], list[Job]] = {}
        """By pool and project, the single jobs that may be stopped and that nobody has asked for:
        most never are, so only then are they made candidates."""
        self._lowest: dict[tuple[str, str], Rank] = {}
        """Of those, the lowest rank, where it has been asked for."""
        self._alone: dict[str, Candidate] = {}
        """The candidates that are single jobs, by its name."""
        self._gangs = {name: _Gang(gang.ranked) for name, gang in gangs.items()}
        self._pools = {pool.name: pool for pool in snapshot.pools}
        self._minima = {p.name: p.min_runtime for p in snapshot.projects if p.min_runtime}
        self._safe_once_started: dict[str, str] = {}
        """By job, the candidate that it is or belongs to."""
        self._done: list[tuple[Callable[[Job, str], None], Place]] = []
        """What undoes each change, to go back."""
        self._stale: set[str] = set()
        """Gangs of which something has moved."""
        self._begin(snapshot)
        for gang in self._gangs.values():
            for until, (job, pool) in gang.protections():
                self._protections[pool].append((until, job))
        for protections in self._protections.values():
            protections.sort(key=_first_to_end)

    def running(self, pool: str, project: str) -> Iterable[Job]:
        """The project's jobs there."""
        return self._running[pool].get(project, {}).values()

    def everyone(self, pool: str) -> Iterator[Job]:
        """All that start or run there, or were given slots there in this plan."""
        for jobs in self._running[pool].values():
            yield from jobs.values()

    def held_below(self, than: Rank, pool: str, project: str) -> Demand:
        """What the project's jobs of a lower rank hold there."""
        key = (than, pool, project)
        if key not in self._held_below:
            below = (job for job in self.running(pool, project) if rank(job) < than)
            self._held_below[key] = Demand.total(job.demand for job in below)
        return self._held_below[key]

    def candidates(self, pool: str, project: str) -> Sequence[Candidate]:
        """What of the project may be stopped there, in the order in which it is taken."""
        self._regroup()
        self._sort(pool, project)
        return self._stakes[pool].get(project, ())

    def lowest(self, pool: str, project: str) -> Rank | None:
        """The lowest rank of these; None: there are none."""
        self._regroup()
        candidates = self._stakes[pool].get(project)
        if candidates is None:
            return None
        ranks = [candidates[0].rank] if candidates else []
        if (pool, project) in self._unsorted:
            ranks.append(self._lowest_unsorted(pool, project))
        return min(ranks)

    def may_give(self, pool: str) -> KeysView[str]:
        """The projects that have candidates there."""
        self._regroup()
        return self._stakes[pool].keys()

    def protected_after_start(self) -> set[str]:
        """The candidates, by name, that are none any more once this plan is carried out: what they
        were given in it is theirs for a `min_runtime` from then on."""
        return set(self._safe_once_started.values())

    def protections(self, pool: str) -> Sequence[Protection]:
        """The first to end first. A gang is protected as long as any of its jobs is."""
        return self._protections[pool]

    def add(self, job: Job, pool: str) -> None:
        """It is given slots there in this plan."""
        self._done.append((self._remove, (job, pool)))
        self._add(job, pool)

    def remove(self, job: Job, pool: str) -> None:
        """It is to be stopped, or was given its slots in this plan and is not any more."""
        self._done.append((self._add, (job, pool)))
        self._remove(job, pool)

    def mark(self) -> int:
        """This moment, for `back_to`."""
        return len(self._done)

    def back_to(self, mark: int) -> None:
        """Everything as it was at that moment."""
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
        """It starts where it has moved, and a `min_runtime` will protect it there: nobody may have
        its room before, so nobody may at that moment."""
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
        """Make candidates of those that are none yet."""
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
        """Only when somebody asks: members come and go one by one."""
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
    """What runs of a gang."""

    def __init__(self, ranked: Sequence[Job]) -> None:
        self._ranked = ranked
        """Whether they run or may yet join: so nothing changes for it when one does."""
        self.places: list[Place] = []
        self.ends: list[int | None] = []
        """When the protections of its members end."""
        self.candidate: Candidate | None = None
        """The candidate that it is."""

    def as_one(self, name: str, now: int) -> Candidate | None:
        """All of it, where all of it may be stopped."""
        if not self.places or self.ends or not self._may_be_stopped():
            return None
        return candidate_of(self.places, name, now, gang=True, ranked=self._ranked)

    def protections(self) -> Iterable[tuple[int | None, Place]]:
        """All of it is safe until the last of its protections ends."""
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
