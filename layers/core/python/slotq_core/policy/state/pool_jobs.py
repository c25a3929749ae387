"""The jobs that start or run in one pool, and the candidates for an eviction among them."""

from __future__ import annotations

from bisect import insort
from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from operator import attrgetter

from slotq_core.model.demand import NOTHING, Demand
from slotq_core.model.jobs import Job
from slotq_core.model.pools import Pool
from slotq_core.policy.order import Rank, rank
from slotq_core.policy.state.candidates import (
    Candidate,
    RunningGang,
    alone,
    is_safe_once_started,
    may_be_stopped,
    protection,
)
from slotq_core.policy.state.may_evict import BY_SETTING, MayEvict

Protection = tuple[int | None, Job]
"""The end of a `min_runtime` (ms), and the job inside it; None: the job has still to start."""

_order = attrgetter("order")


class PoolJobs:
    """The jobs of one pool by project. A project's candidates are made when first asked for, and
    again after its jobs have changed."""

    def __init__(
        self,
        pool: Pool,
        now: int,
        gangs: Mapping[str, RunningGang],
        may_evict: MayEvict = BY_SETTING,
    ) -> None:
        self._pool, self._now, self._gangs, self.may_evict = pool, now, gangs, may_evict
        self._running: dict[str, dict[str, Job]] = {}
        self._candidates: dict[str, list[Candidate]] = {}
        """By project, in the order of eviction."""
        self._once_started: dict[str, list[Candidate]] = {}
        """By project, in the order of the next plan, until the project's jobs change."""
        self._alone: dict[str, Candidate] = {}
        """The candidates that are single jobs, by job name."""
        self._projects: set[str] = set()
        """The projects with candidates, as far as their jobs have not changed since."""
        self._below: dict[str, dict[Rank, Demand]] = {}
        """By project and rank, the results of `below`, until the project's candidates change."""
        self._changed: set[str] = set()
        """Projects whose jobs, or members of their gangs, have come or gone."""
        self._protects = bool(pool.min_runtime or pool.max_min_runtime)
        self._start = pool.health.start_time
        self.protections: dict[str, Protection] = {}
        """By job, the first to end first. A gang is protected as long as any of its jobs is."""
        self.placed: dict[str, int] = {}
        """The jobs that this plan gave slots here, each with a number: later starts have larger."""
        self.safe: dict[str, Job] = {}
        """The jobs of `placed` that a `min_runtime` will protect once the plan is carried out."""

    def projects(self) -> AbstractSet[str]:
        """The projects with candidates here."""
        while self._changed:
            project = self._changed.pop()
            able = any(map(self._may_be_stopped, self.running(project)))
            (self._projects.add if able else self._projects.discard)(project)
        return self._projects

    def running(self, project: str) -> Collection[Job]:
        """The project's starting and running jobs, and those given slots in this plan."""
        return self._running[project].values() if project in self._running else ()

    def has(self, job: Job) -> bool:
        """Whether the job starts or runs here, or was given slots in this plan."""
        return job.name in self._running.get(job.project, ())

    def everyone(self) -> Iterator[Job]:
        """The jobs of all projects."""
        for jobs in self._running.values():
            yield from jobs.values()

    def held_below(self, than: Rank, project: str) -> Demand:
        """The amounts that the project's jobs of a lower rank hold here, evictable or not."""
        return Demand.total([job.demand for job in self.running(project) if rank(job) < than])

    def candidates_once_started(self, project: str) -> Sequence[Candidate]:
        """`candidates` in the order of the next plan, for which all starts of this plan run."""
        found = self._once_started.get(project)
        if found is None:
            key = attrgetter("order_once_started")
            found = self._once_started[project] = sorted(self.candidates(project), key=key)
        return found

    def candidates(self, project: str) -> Sequence[Candidate]:
        """The project's candidates here, in the order of eviction."""
        found = self._candidates.get(project)
        if found is None:
            able = filter(self._may_be_stopped, self.running(project))
            different = dict.fromkeys(map(self._candidate_of, able))
            found = self._candidates[project] = sorted(different, key=_order)
        return found

    def below(self, than: Rank, project: str) -> Demand:
        """The amounts that the project's candidates of a lower rank would free here."""
        if project not in self._running:
            return NOTHING
        known = self._below.setdefault(project, {})
        if than not in known:
            rank_of = self._rank if self._gangs else rank
            lower = [job for job in self.running(project) if rank_of(job) < than]
            freed = [job.demand for job in lower if self._may_be_stopped(job)]
            known[than] = Demand.total(freed) if freed else NOTHING
        return known[than]

    def take_in(self, job: Job, project_min: int) -> None:
        """Enter a job that ran before this plan."""
        self._running.setdefault(job.project, {})[job.name] = job
        if self._protects or project_min:
            protected, until = protection(job, self._pool, project_min, self._now)
            if protected:
                self.protections[job.name] = until, job

    def all_taken_in(self) -> None:
        """Put the protections in order. Called once, after the last `take_in`."""
        self._changed.update(self._running)
        self.protections = dict(sorted(self.protections.items(), key=_first_to_end))

    def add(self, job: Job, project_min: int, number: int) -> None:
        """Add a job that this plan gives slots, or one whose eviction is rolled back. `number`: of
        the start, if this plan starts the job; else 0."""
        self._running.setdefault(job.project, {})[job.name] = job
        if number:
            self.placed[job.name] = number
            if is_safe_once_started(job, self._pool, project_min):
                self.safe[job.name] = job
        self._note_a_change(job.project)
        in_gang = job.group in self._gangs
        if job.project in self._candidates and not in_gang and self._may_be_stopped(job):
            insort(self._candidates[job.project], self._candidate_of(job), key=_order)

    def remove(self, job: Job) -> None:
        """Remove a job that this plan evicts, or that loses the slots this plan gave it."""
        del self._running[job.project][job.name]
        self._note_a_change(job.project)
        self.placed.pop(job.name, None)
        self.safe.pop(job.name, None)
        gone = self._alone.pop(job.name, None)
        if gone and job.project in self._candidates:
            others = [
                candidate for candidate in self._candidates[job.project] if candidate is not gone
            ]
            self._candidates[job.project] = others

    def gang_has_changed(self, project: str) -> None:
        """Make the project's candidates again when asked for: a member has come or gone."""
        self._note_a_change(project)
        self._candidates.pop(project, None)

    def _note_a_change(self, project: str) -> None:
        self._changed.add(project)
        self._below.pop(project, None)
        self._once_started.pop(project, None)

    def _may_be_stopped(self, job: Job) -> bool:
        """Whether the job, or its gang, is a candidate. A job that moves here and will start under
        a `min_runtime` is not a candidate, even before its start."""
        if job.group in self._gangs:
            return self._gangs[job.group].with_member(job) is not None
        if not may_be_stopped(job, self.may_evict) or job.name in self.protections:
            return False
        return not (job.claim and job.claim.moved and job.name in self.safe)

    def _rank(self, job: Job) -> Rank:
        """The rank of the job, or of its gang."""
        together = self._gangs[job.group].with_member(job) if job.group in self._gangs else None
        return together.rank if together else rank(job)

    def _candidate_of(self, job: Job) -> Candidate:
        together = self._gangs[job.group].with_member(job) if job.group in self._gangs else None
        if together:
            return together
        if job.name not in self._alone:
            number = self.placed.get(job.name, 0)
            self._alone[job.name] = alone(job, self._pool.name, self._now, number, self._start)
        return self._alone[job.name]


def _first_to_end(protected: tuple[str, Protection]) -> tuple[bool, int, str]:
    name, (until, _) = protected
    return (until is None, until or 0, name)
