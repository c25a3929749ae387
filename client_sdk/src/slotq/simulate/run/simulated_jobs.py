"""The jobs of a run that a plan needs (holders of slots, the first waiting jobs of each line), and
the spent budgets of projects.

So a pass over a long queue costs as much as one over a short queue.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from operator import attrgetter

from slotq_core.lifecycle import copied
from slotq_core.model.attempts import Attempt
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.projects import (
    NO_PAST_USE,
    NOTHING_SPENT,
    BudgetStatus,
    PastUse,
    Spending,
)
from slotq_core.model.sharing import Sharing
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.lines import Line, by_user, first_read
from slotq_core.policy.plan import Found, Need
from slotq_core.policy.state.quotas.budgets import budgets_of
from slotq_core.usage.amounts import Window
from slotq_core.usage.attempt_use import AttemptUse, use_of
from slotq_core.usage.calendar_days import month_of, next_month
from slotq_core.usage.past_use import DayUse, add_attempt, hour_of, is_due, past_use

_place = attrgetter("entry_time", "name")
"""The order within a line."""


class SimulatedJobs:
    """The jobs of a simulation, by their present state."""

    def __init__(self, configuration: Snapshot) -> None:
        """`configuration` is the part of a snapshot that does not change. It has no jobs."""
        self._by_user = by_user(configuration)
        self._projects = bool(configuration.projects)
        self._all: dict[str, Job] = {}
        self._active: dict[str, Job] = {}
        self._starting: dict[str, Job] = {}
        """Those of `_active` that start, in the order of their starts."""
        self._due: dict[str, Job] = {}
        self._claimants: dict[str, Job] = {}
        self._lines: dict[Line, list[Job]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._all

    def __getitem__(self, name: str) -> Job:
        return self._all[name]

    def get(self, name: str) -> Job | None:
        return self._all.get(name)

    def starting(self) -> list[Job]:
        """The starting jobs, in the order of their starts."""
        return list(self._starting.values())

    def active(self) -> Iterable[Job]:
        """The jobs that hold slots, or GPUs of a node."""
        return self._active.values()

    def put(self, job: Job) -> None:
        """Store the job's new version. Forget a job that has ended."""
        before = self._all.pop(job.name, None)
        if before is not None:
            self._take_out(before)
        if job.terminal:
            return
        self._all[job.name] = job
        if job.active:
            self._active[job.name] = job
            if job.state is JobState.STARTING:
                self._starting[job.name] = job
        elif job.waits and job.claim:
            self._claimants[job.name] = job
        elif job.waits:
            insort(self._lines.setdefault(self._line_of(job), []), job, key=_place)
        if job.not_before is not None:
            self._due[job.name] = job

    def everything(self, world: Snapshot) -> Snapshot:
        """The world with all jobs."""
        lines = (job for line in self._lines.values() for job in line)
        return self._in(world, lines)

    def heads(self, world: Snapshot) -> Snapshot:
        """The world with the first waiting jobs of each line, and how many wait behind them."""
        groups = {group.name: group for group in world.groups}
        waiting: list[Job] = []
        behind = {}
        for line, jobs in self._lines.items():
            count = first_read(line, world.pools, groups, shares=self._projects)
            first = jobs[:count]
            waiting += first
            if len(jobs) > len(first):
                behind[first[-1].name] = len(jobs) - len(first)
        return self._in(world, waiting, behind)

    def more(self, need: Need) -> Found:
        """The next jobs of a line, for a plan in progress."""
        jobs = self._lines[self._line_of(need.after)]
        begin = bisect_right(jobs, _place(need.after), key=_place)
        found = jobs[begin : begin + need.count]
        return Found(jobs=tuple(found), behind=len(jobs) - begin - len(found))

    def _in(
        self, world: Snapshot, waiting: Iterable[Job], behind: Mapping[str, int] | None = None
    ) -> Snapshot:
        return copied(
            world,
            active=tuple(self._active.values()),
            waiting=(*self._claimants.values(), *waiting),
            due=tuple(self._due.values()),
            behind=behind or {},
        )

    def _take_out(self, job: Job) -> None:
        for index in (self._active, self._starting, self._due, self._claimants):
            index.pop(job.name, None)
        if job.waits and not job.claim:
            line = self._line_of(job)
            jobs = self._lines[line]
            del jobs[bisect_left(jobs, _place(job), key=_place)]
            if not jobs:
                del self._lines[line]

    def _line_of(self, job: Job) -> Line:
        return Line.of(job, by_user=self._by_user)


class Spent:
    def __init__(self, configuration: Snapshot, before: Spending = NOTHING_SPENT) -> None:
        """`before`: the spending before the run."""
        self._projects = {
            project.name for project in configuration.projects if project.budget is not None
        }
        self._month = Window(start=before.month, end=_end_of(before.month))
        self._slot_ms = Counter(before.slot_ms)
        self._warned = set(before.warned)

    def note(self, before: Job | None, after: Job, now: int) -> None:
        """Add the attempt that this change ends, if it ends one."""
        ended = before.attempt if before and not after.attempt else None
        if ended is not None and after.project in self._projects:
            self._turn(now)
            self._slot_ms[after.project] += self._month.use_of(
                after.demand.slots, ended.part_of_slot, ended.used_since, ended.used_until(now)
            )

    def spending(self) -> Spending:
        return Spending(
            month=self._month.start,
            slot_ms=dict(self._slot_ms),
            warned=frozenset(self._warned),
        )

    def warnings(self, snapshot: Snapshot, now: int) -> Iterator[BudgetStatus]:
        """Yield the projects that have come near their budgets since the last call."""
        for name, status in budgets_of(snapshot, now).items() if self._projects else ():
            if status.is_near and not status.warned:
                self._turn(now)
                self._warned.add(name)
                yield status

    def _turn(self, now: int) -> None:
        """Reset the sums if a new month has begun."""
        month = Window(start=month_of(now), end=next_month(now))
        if month != self._month:
            self._month = month
            self._slot_ms.clear()
            self._warned.clear()


class Past:
    """The past use of projects, added up each hour."""

    def __init__(self, configuration: Snapshot, before: PastUse = NO_PAST_USE) -> None:
        """`before`: past use before the run, as of its hour."""
        self._sharing = Sharing(
            projects=configuration.projects,
            departments=configuration.departments,
            fair_share=configuration.fair_share,
        )
        self.use, self._before = before, before
        self._settled: DayUse = {}
        """The use of attempts that ended before the last count."""
        self._ended: list[AttemptUse] = []
        """The attempts that ended since."""

    def note(self, before: Job | None, after: Job, now: int) -> None:
        """Keep the attempt that this change ends, if it ends one."""
        ended = before.attempt if before and not after.attempt else None
        if ended is not None and self._sharing.fair_share is not None and before is not None:
            self._ended.append(self._use(before, copied(ended, ended_at=now)))

    def count(self, active: Iterable[Job], now: int) -> None:
        """Add up the use until the last full hour, if an hour is over."""
        if not is_due(self.use, self._sharing, now):
            return
        at, later, recent = hour_of(now), list[AttemptUse](), DayUse()
        for use in self._ended:
            if use.ended_at is not None and use.ended_at <= at:
                add_attempt(self._settled, use, at)
            else:
                later.append(use)
        self._ended = later
        running = (self._use(job, job.attempt) for job in active if job.attempt)
        for use in (*later, *running):
            add_attempt(recent, use, at)
        self.use = past_use([self._settled, recent], at, self._sharing, self._before)

    def _use(self, job: Job, attempt: Attempt) -> AttemptUse:
        """The attempt's use in this run: what came before is in the sums from before."""
        use, since = use_of(job, attempt), self._before.at
        return copied(use, admitted_at=max(use.admitted_at, since)) if since else use


def _end_of(month: int) -> int:
    """The end of a known month; the month of `NOTHING_SPENT` has none."""
    return next_month(month) if month else 0
