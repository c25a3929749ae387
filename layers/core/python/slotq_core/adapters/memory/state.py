"""The state shared by the facets of a store in memory, behind one lock; and an index for passes:
ordered lines, claimants, active jobs, and jobs that wait for a time. It saves a scan of all
jobs."""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from slotq_core.lifecycle import copied
from slotq_core.model.attempts import Attempt
from slotq_core.model.callers import opener_mark
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job
from slotq_core.model.nodes import Node
from slotq_core.model.pools import HEALTHY, Pool, PoolHealth, WarmSlot
from slotq_core.model.users import Yielded
from slotq_core.policy.lines import Line, line_of
from slotq_core.policy.order import Precedence
from slotq_core.ports.callbacks import KeptCallback
from slotq_core.ports.stored import InParts, Ledger, NoSuchLine
from slotq_core.storage.ends import HISTORY
from slotq_core.storage.order_keys import key_after, order_key

K = TypeVar("K")
Place = tuple[str, str]
"""(order key, name)"""


class Index:
    """Job names, by the groups that a pass reads."""

    def __init__(self) -> None:
        self.claimants: set[str] = set()
        self.active: set[str] = set()
        self._lines: dict[str, list[Place]] = {}
        self._due: list[tuple[int, str]] = []
        self._after: dict[str, set[str]] = defaultdict(set)

    def keep(self, job: Job) -> None:
        if job.waits:
            insort(self._lines.setdefault(line_of(job), []), (order_key(job), job.name))
        if job.waits and job.claim:
            self.claimants.add(job.name)
        if job.active:
            self.active.add(job.name)
        if (at := _due_at(job)) is not None:
            insort(self._due, (at, job.name))
        for awaited in job.waits_for:
            self._after[awaited].add(job.name)

    def forget(self, job: Job) -> None:
        """Remove a job. `job` must be as it was stored."""
        self.active.discard(job.name)
        self.claimants.discard(job.name)
        if job.waits:
            _take(self._lines[line_of(job)], (order_key(job), job.name))
        if (at := _due_at(job)) is not None:
            _take(self._due, (at, job.name))
        for awaited in job.waits_for:
            self._after[awaited].discard(job.name)

    def lines(self) -> list[str]:
        """Return the lines with waiting jobs, and delete empty lines."""
        for line in [line for line, places in self._lines.items() if not places]:
            del self._lines[line]
        return list(self._lines)

    def behind(self, line: str, after: Place | None) -> Iterator[str]:
        """Yield the jobs of a line behind this place (None: all), without the claimants."""
        places = self._lines.get(line, [])
        begin = 0 if after is None else bisect_right(places, after)
        return (name for _, name in places[begin:] if name not in self.claimants)

    def waiting(self) -> Iterator[str]:
        """Return every job in a line."""
        return (name for places in self._lines.values() for _, name in places)

    def due(self, most: int | None = None) -> Iterator[str]:
        """Return the jobs that wait for a time, and ended jobs whose dependents must still be
        notified: the earliest first, at most `most`."""
        return (name for _, name in self._due[:most])

    def followers(self, awaited: str) -> list[str]:
        """Return the jobs that wait for this one."""
        return sorted(self._after.get(awaited, ()))

    def ahead_of(self, job: Job, by: Precedence) -> int:
        """Return how many jobs wait ahead of this job in the lines of its pools."""
        own, found = line_of(job), 0
        for name, places in self._lines.items():
            line = Line.parse(name)
            if set(job.pools) & set(line.pools):
                key = order_key(job) if name == own else key_after(job, line, by)
                found += bisect_left(places, (key, ""))
        return found


def _due_at(job: Job) -> int | None:
    return job.changed_at if job.terminal and job.followed else job.not_before


def _take(ordered: list[tuple[K, str]], place: tuple[K, str]) -> None:
    at = bisect_left(ordered, place)
    assert ordered[at] == place
    del ordered[at]


@dataclass(kw_only=True)
class State:
    """The stored jobs and what belongs to them."""

    history: int = HISTORY
    """How long ended jobs stay readable (ms)."""
    lock: threading.RLock = field(default_factory=threading.RLock)
    pools: tuple[Pool, ...] = ()
    jobs: dict[str, Job] = field(default_factory=dict)
    requests: dict[str, bytes] = field(default_factory=dict)
    callbacks: dict[tuple[str, str], KeptCallback] = field(default_factory=dict)
    attempts: dict[str, dict[int, Attempt]] = field(default_factory=lambda: defaultdict(dict))
    job_of: dict[str, str] = field(default_factory=dict)
    """By training job: the job, or the node (`owner_of_node`)."""
    nodes: dict[tuple[str, str], Node] = field(default_factory=dict)
    """By pool and name."""
    warm: dict[tuple[str, str], WarmSlot] = field(default_factory=dict)
    """By pool and training job."""
    ended: list[str] = field(default_factory=list)
    """Ended jobs whose records are not yet marked for expiry."""
    index: Index = field(default_factory=Index)
    openers: dict[str, str] = field(default_factory=dict)
    """By line, the mark of the caller who opened it."""
    ledgers: dict[str, Ledger] = field(default_factory=lambda: defaultdict(Ledger))
    health: dict[str, PoolHealth] = field(default_factory=dict)
    foreign: dict[str, Demand] = field(default_factory=dict)
    yields: dict[tuple[str, tuple[str | None, str, str, int]], Yielded] = field(
        default_factory=dict
    )
    """By pool, user and rank."""
    group_decisions: int = 0
    in_parts: InParts | None = None
    changes: int = 0
    """How often something that people see has changed."""

    def all_jobs(self) -> list[Job]:
        with self.lock:
            return list(self.jobs.values())

    def active(self) -> list[Job]:
        with self.lock:
            return self.of(self.index.active)

    def of(self, names: Iterable[str]) -> list[Job]:
        return [self.jobs[name] for name in names]

    def pools_now(self) -> list[Pool]:
        """Return the pools with their learned health."""
        return [
            copied(
                pool,
                foreign=self.foreign.get(pool.name, Demand()),
                health=self.health.get(pool.name, HEALTHY),
            )
            for pool in self.pools
        ]

    def keep(self, job: Job) -> Job:
        self.changes += 1
        before = self.jobs.get(job.name)
        self.jobs[job.name] = job
        self.index.keep(job)
        if job.terminal and not (before and before.terminal):
            self.ended.append(job.name)
        return job

    def remove(self, name: str) -> None:
        """Remove a job and all that belongs to it."""
        for attempt in self.attempts.pop(name, {}).values():
            self.job_of.pop(attempt.training_job, None)
        del self.jobs[name], self.requests[name]

    def raise_version(self, pool: str, gained: Demand) -> None:
        """Raise the version of a pool's ledger, and its used amount by `gained`."""
        self.changes += 1
        ledger = self.ledgers[pool]
        self.ledgers[pool] = Ledger(version=ledger.version + 1, used=ledger.used + gained)

    def lines(self) -> set[str]:
        """Return the lines that jobs wait in, or will enter by themselves."""
        coming = (line_of(job) for job in self.jobs.values() if job.comes_to_line)
        return {*self.index.lines(), *coming}

    def open_lines(self) -> dict[str, str]:
        with self.lock:
            return {line: self.openers.get(line, "") for line in self.lines()}

    def check_line(self, job: Job, *, opens_line: bool, opener: str) -> bool:
        """Return whether the job opens a line that counts for a caller. Raise NoSuchLine if it may
        open none."""
        if opens_line and not opener:
            return False
        line, lines = line_of(job), self.lines()
        if line in lines:
            return False
        if not opens_line:
            raise NoSuchLine("there is no such line")
        self.openers = {name: opener for name, opener in self.openers.items() if name in lines}
        self.openers[line] = opener_mark(opener)
        return True


class _Facet(Protocol):
    @property
    def _state(self) -> State: ...


P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=_Facet)


def one_at_a_time(method: Callable[Concatenate[F, P], R]) -> Callable[Concatenate[F, P], R]:
    """Hold the state's lock during the method of a facet."""

    def locked(self: F, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self._state.lock:
            return method(self, *args, **kwargs)

    return locked
