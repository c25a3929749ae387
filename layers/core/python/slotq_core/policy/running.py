"""Who runs in a pool during one plan, and who of them may be stopped: project by project, for both
a reclaim and a preemption ask for one project's jobs at a time.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, KeysView, Mapping, Sequence

from slotq_core.model import Job, JobState, Pool
from slotq_core.policy.stakes import Taken, by_order, is_protected, is_settled, protected_until

State = tuple[dict[str, dict[str, Job]], dict[str, list[Job]]]


class Running:
    """Starting and running jobs of one pool, and those given slots in this plan."""

    __slots__ = ("_candidates", "_jobs", "_now", "protections")

    def __init__(
        self, pool: Pool, active: Iterable[Job], min_runtimes: Mapping[str, int], now: int
    ) -> None:
        """`min_runtimes`: by project, how long its attempts are safe from eviction (ms)."""
        self._now = now
        self._jobs: dict[str, dict[str, Job]] = {}
        self._candidates: dict[str, list[Job]] = {}
        self.protections: list[tuple[int | None, Job]] = []
        """Those inside a `min_runtime`, and until when, the first to end first; None: from a start
        that is yet to come."""
        for job in active:
            if job.state is not JobState.STOPPING:
                self._take_in(job, pool, min_runtimes.get(job.project, 0))
        self.protections.sort(key=lambda each: (each[0] is None, each[0] or 0, each[1].name))
        for candidates in self._candidates.values():
            candidates.sort(key=self._by_order)

    def of(self, project: str) -> Iterable[Job]:
        return self._jobs.get(project, {}).values()

    def candidates(self, project: str) -> Sequence[Job]:
        """Those of the project that may be stopped, in the order in which they are taken."""
        return self._candidates.get(project, ())

    def may_give(self) -> KeysView[str]:
        """The projects that have candidates."""
        return self._candidates.keys()

    def add(self, job: Job) -> None:
        """It was given its slots in this plan."""
        self._jobs.setdefault(job.project, {})[job.name] = job
        if job.evictable:
            insort(self._candidates.setdefault(job.project, []), job, key=self._by_order)

    def remove(self, victim: Job) -> None:
        del self._jobs[victim.project][victim.name]
        others = [each for each in self.candidates(victim.project) if each.name != victim.name]
        if others:
            self._candidates[victim.project] = others
        else:
            del self._candidates[victim.project]

    def state(self) -> State:
        """What the walk has changed, to go back to."""
        return (
            {project: dict(jobs) for project, jobs in self._jobs.items()},
            {project: list(jobs) for project, jobs in self._candidates.items()},
        )

    def back_to(self, state: State) -> None:
        """Once for each state."""
        self._jobs, self._candidates = state

    def _take_in(self, job: Job, pool: Pool, project_min: int) -> None:
        self._jobs.setdefault(job.project, {})[job.name] = job
        if is_protected(job, pool, project_min, self._now):
            self.protections.append((protected_until(job, pool, project_min), job))
        elif job.evictable and is_settled(job):
            self._candidates.setdefault(job.project, []).append(job)

    def _by_order(self, job: Job) -> Taken:
        return by_order(job, self._now)
