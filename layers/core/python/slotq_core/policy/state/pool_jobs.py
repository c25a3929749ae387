"""The jobs that start or run in one pool, and the candidates for an eviction among them."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import takewhile
from operator import attrgetter

from slotq_core.model.demand import NOTHING, Demand
from slotq_core.model.jobs import Job
from slotq_core.model.pools import Pool
from slotq_core.policy.order import Rank, rank
from slotq_core.policy.state.candidates import (
    Candidate,
    alone,
    is_safe_once_started,
    may_be_stopped,
    protection,
)

Protection = tuple[int | None, Job]
"""The end of a `min_runtime` (ms), and the job inside it; None: the job has still to start."""

_order = attrgetter("order")


class PoolJobs:
    """The jobs of one pool by project. `RunningJobs` offers and withdraws gangs as candidates."""

    def __init__(self, pool: Pool, now: int, regroup: Callable[[], None] | None) -> None:
        """`regroup`: brings the candidates that are gangs up to date; None: there are no gangs."""
        self._pool, self._now, self._regroup = pool, now, regroup
        self._running: dict[str, dict[str, Job]] = {}
        self._candidates: dict[str, list[Candidate]] = {}
        """By project, in the order of eviction, without those of `_unsorted`."""
        self._unsorted: dict[str, list[Job]] = {}
        """By project, single jobs: those that may be stopped become candidates when first asked
        for."""
        self._alone: dict[str, Candidate] = {}
        """The candidates that are single jobs, by job name."""
        self._projects: set[str] = set()
        """The projects with candidates."""
        self._below: dict[str, dict[Rank, Demand]] = {}
        """By project and rank, what `below` has found, until the project's candidates change."""
        self._protects = bool(pool.min_runtime or pool.max_min_runtime)
        self.protections: list[Protection] = []
        """The first to end first. A gang is protected as long as any of its jobs is."""
        self.placed: dict[str, Job] = {}
        """The jobs that this plan gave slots here."""
        self.safe: dict[str, Job] = {}
        """Those of `placed` that a `min_runtime` will protect once the plan is carried out."""

    def running(self, project: str) -> Iterable[Job]:
        """The project's starting and running jobs, and those given slots in this plan."""
        return self._running.get(project, {}).values()

    def everyone(self) -> Iterator[Job]:
        """The jobs of all projects."""
        for jobs in self._running.values():
            yield from jobs.values()

    def held_below(self, than: Rank, project: str) -> Demand:
        """What the project's jobs of a lower rank hold here, evictable or not."""
        return Demand.total(job.demand for job in self.running(project) if rank(job) < than)

    def candidates(self, project: str) -> Sequence[Candidate]:
        """The project's candidates here, in the order of eviction."""
        if self._regroup:
            self._regroup()
        if project not in self._projects:
            return ()
        self._sort(project)
        return self._candidates[project]

    def below(self, than: Rank, project: str) -> Demand:
        """What the project's candidates of a lower rank would free here."""
        if self._regroup:
            self._regroup()
        if project not in self._projects:
            return NOTHING
        known = self._below.setdefault(project, {})
        if than not in known:
            known[than] = self._freed_below(than, project)
        return known[than]

    def may_give(self) -> set[str]:
        """The projects with candidates here."""
        if self._regroup:
            self._regroup()
        return self._projects

    @property
    def name(self) -> str:
        return self._pool.name

    def take_in(
        self, job: Job, project_min: int = 0, *, in_gang: bool = False
    ) -> Protection | None:
        """Enter a job that ran before this plan. Return its protection, if it has one."""
        self._running.setdefault(job.project, {})[job.name] = job
        protected, until = False, None
        if self._protects or project_min:
            protected, until = protection(job, self._pool, project_min, self._now)
        if not in_gang and protected:
            self.protections.append((until, job))
        elif not in_gang:
            self._unsorted.setdefault(job.project, []).append(job)
        return (until, job) if protected else None

    def all_taken_in(self) -> None:
        """Find the projects with candidates. Called once, after the last `take_in`."""
        self.protections.sort(key=_first_to_end)
        unsorted = self._unsorted.items()
        self._projects |= {name for name, jobs in unsorted if any(map(may_be_stopped, jobs))}

    def add(self, job: Job, project_min: int, *, in_gang: bool) -> None:
        """Add a job that this plan gives slots, or one whose eviction is rolled back."""
        self._running.setdefault(job.project, {})[job.name] = job
        if job.attempt is None:
            self.placed[job.name] = job
            if is_safe_once_started(job, self._pool, project_min):
                self.safe[job.name] = job
        if in_gang or not job.evictable or self._is_kept_safe(job):
            return
        self._unsorted.setdefault(job.project, []).append(job)
        self._projects.add(job.project)
        self._below.pop(job.project, None)

    def remove(self, job: Job) -> None:
        """Remove a job that this plan evicts, or that loses the slots this plan gave it."""
        self._sort(job.project)
        del self._running[job.project][job.name]
        self.placed.pop(job.name, None)
        self.safe.pop(job.name, None)
        if job.name in self._alone:
            self.withdraw(self._alone.pop(job.name))

    def offer(self, candidate: Candidate) -> None:
        self._projects.add(candidate.project)
        self._below.pop(candidate.project, None)
        insort(self._candidates.setdefault(candidate.project, []), candidate, key=_order)

    def withdraw(self, candidate: Candidate) -> None:
        self._sort(candidate.project)
        self._below.pop(candidate.project, None)
        others = [each for each in self._candidates[candidate.project] if each is not candidate]
        if others:
            self._candidates[candidate.project] = others
        else:
            del self._candidates[candidate.project]
            self._projects.remove(candidate.project)

    def _freed_below(self, than: Rank, project: str) -> Demand:
        name = self._pool.name
        known = takewhile(lambda each: each.rank < than, self._candidates.get(project, ()))
        lower = [candidate.frees(name) for candidate in known]
        singles = filter(may_be_stopped, self._unsorted.get(project, ()))
        lower += [job.demand for job in singles if rank(job) < than]
        return Demand.total(lower) if lower else NOTHING

    def _is_kept_safe(self, job: Job) -> bool:
        """Whether the job starts in its destination pool under a `min_runtime`: nobody may take the
        room before the start, so nobody may take it at that moment."""
        return job.claim is not None and job.claim.moved and job.name in self.safe

    def _sort(self, project: str) -> None:
        """Turn the remaining single jobs of the project into candidates."""
        if jobs := self._unsorted.pop(project, None):
            singles = map(self._single, filter(may_be_stopped, jobs))
            together = [*self._candidates.get(project, ()), *singles]
            self._candidates[project] = sorted(together, key=_order)

    def _single(self, job: Job) -> Candidate:
        self._alone[job.name] = alone(job, self._pool.name, self._now)
        return self._alone[job.name]


def _first_to_end(protection: Protection) -> tuple[bool, int, str]:
    until, job = protection
    return (until is None, until or 0, job.name)
