"""Limits on how many jobs of a group run at once, also as resources of a plan.

`max_jobs` (checked first, consumes no attempt); a sweep's `max_parallel`. A job kept back is not
tried: it evicts nothing, drains nothing and fails no attempt. A claim counts as slots held. For
`max_jobs` a gang counts as one job.

One resource for each user and set of possible classes: an AUTO job may be of any class, and its
resource is what all classes leave together.

See docs/policy-decisions.md#attempts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from slotq_core.lifecycle import copied
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job
from slotq_core.model.reasons import JobLimitReached, Reason, SweepLimit
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.lines import WaitingLine
from slotq_core.policy.order import position
from slotq_core.policy.state.journal import Journal
from slotq_core.policy.state.user_limits import Rights

CONCURRENCY = (JobLimitReached, SweepLimit)
"""The reasons of jobs that a concurrency limit keeps back."""

ALL = ""
"""The key of `max_jobs` among limits; the other keys are names of sweeps."""

Held = dict[str, Counter[str]]
"""By limit, the number of jobs in each unit that hold slots or a claim."""


class Concurrency:
    """The counts of one plan, updated as jobs get and lose slots."""

    def __init__(self, snapshot: Snapshot, journal: Journal) -> None:
        self._journal = journal
        settings = snapshot.scheduler
        self._limits = _sweeps(snapshot)
        self._gangs = {group.name for group in snapshot.groups} - self._limits.keys()
        if settings and settings.max_jobs is not None:
            self._limits[ALL] = settings.max_jobs
        self._held: Held = {limit: Counter() for limit in self._limits}
        for job in _holders(snapshot) if self._limits else ():
            self.take(job)

    def take(self, job: Job) -> None:
        if self._limits:
            self._count(job, 1)
            self._journal.record(self._count, job, -1)

    def give_back(self, job: Job) -> None:
        if self._limits:
            self._count(job, -1)
            self._journal.record(self._count, job, 1)

    def keeps_back(self, job: Job) -> Reason | None:
        """The limit that keeps the job, unless it has a claim, from its turn; or None."""
        if not self._limits or job.claim:
            return None
        for counted, unit in self._units(job):
            held, limit = self._held[counted], self._limits[counted]
            if unit in held or len(held) < limit:
                continue
            if counted == ALL:
                return JobLimitReached(active=len(held), limit=limit)
            return SweepLimit(group=counted, active=len(held), limit=limit)
        return None

    def _count(self, job: Job, more: int) -> None:
        for counted, unit in self._units(job):
            self._held[counted][unit] += more
            if not self._held[counted][unit]:
                del self._held[counted][unit]

    def _units(self, job: Job) -> Iterator[tuple[str, str]]:
        """The limits that count the job, each with the unit that counts. A gang is one unit."""
        if ALL in self._limits:
            gang = job.group in self._gangs
            yield ALL, f"gang {job.group}" if gang else f"job {job.name}"
        if job.group and job.group in self._limits:
            yield job.group, job.name


def wanting(snapshot: Snapshot, lines: Iterable[WaitingLine]) -> Iterator[tuple[Job, int]]:
    """The first job of each line, and how many of the line want slots: a sweep asks for no more
    than it may have at once. In a sweep of several projects each project counts by itself, so that
    no share depends on whose jobs start first."""
    sweeps = _sweeps(snapshot)
    if sweeps:
        return _wanting_with_sweeps(snapshot, lines, sweeps)
    return ((line.jobs[0], len(line.jobs) + line.behind) for line in lines)


def _wanting_with_sweeps(
    snapshot: Snapshot, lines: Iterable[WaitingLine], sweeps: Mapping[str, int]
) -> Iterator[tuple[Job, int]]:
    held = Counter((job.group, job.project) for job in _holders(snapshot))
    kept_back = set()
    members = (job for job in snapshot.waiting if job.group in sweeps and job.claim is None)
    for job in sorted(members, key=position):
        held[job.group, job.project] += 1
        if held[job.group, job.project] > sweeps[job.group]:
            kept_back.add(job.name)
    for line in lines:
        if line.jobs[0].group in sweeps:
            yield line.jobs[0], sum(job.name not in kept_back for job in line.jobs)
        else:
            yield line.jobs[0], len(line)


def _sweeps(snapshot: Snapshot) -> dict[str, int]:
    """The sweeps, each with its limit."""
    return {
        group.name: group.max_parallel
        for group in snapshot.groups
        if group.max_parallel is not None
    }


def _holders(snapshot: Snapshot) -> Iterator[Job]:
    """The jobs that hold slots or a claim. A job with both comes up once."""
    yield from snapshot.active
    yield from (job for job in snapshot.waiting if job.claim)


Left = Callable[[str, str, str], int | None]
"""The slots left to a user in a class and a pool; None: no limit."""

_NO_LIMIT = 1 << 40


class Bounded:
    """The extra resources of these jobs."""

    def __init__(self, jobs: Iterable[Job], rights: Rights, left: Left) -> None:
        self._left = left
        self._bound = {job.name: (job.person, tuple(rights.choices(job))) for job in jobs}
        self._users = set(self._bound.values())

    def counted(self, job: Job) -> Job:
        """The job with its part of the user's limit in its demand."""
        part = Demand({_named(*self._bound[job.name]): job.demand.slots})
        return copied(job, demand=job.demand + part)

    def left(self, pool: str) -> Demand:
        """The amounts that the limits leave to all of these users in the pool."""
        found = {}
        for user, choices in self._users:
            lefts = [self._left(user, class_name, pool) for class_name in choices]
            found[_named(user, choices)] = sum(_NO_LIMIT if n is None else n for n in lefts)
        return Demand(found)


def _named(user: str, choices: Iterable[str]) -> str:
    return f"{user} of {' '.join(choices)}"
