"""Whose turn it is: the first job of the most deprived project in the most deprived department.

Each admission changes who is deprived, so projects are ranked anew after each decision. The order
within a project stands. Only keys that a decision may have changed are computed again. The cost of
a turn therefore grows with the logarithm of the number of waiting jobs, never with the number of
projects.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job
from slotq_core.policy.order import NO_YIELDS, Position, Yields, position, rank
from slotq_core.policy.state.quotas.accounts import Accounts
from slotq_core.policy.turn.revisit import Revisits

Key = tuple[Any, ...]

MOST_LOSSES = 8
"""How often one job may lose its slots in a plan and be tried again, so that each plan ends."""

NO_BOOKS = ""
"""The department of projects without an account. It comes before all others."""


class Head(NamedTuple):
    """The first job of a line. Heads sort by place, and no two places are equal."""

    place: Position
    job: Job
    behind: Iterator[Job]
    """The rest of the line."""


class Ranking:
    """The names in order of their keys, while keys change: the smallest key first, then the name.

    A heap keeps outdated entries of a name beside the current one. `first` discards them at the
    top.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[Key, str]] = []
        self._keys: dict[str, Key] = {}

    def put(self, name: str, key: Key) -> None:
        if self._keys.get(name) != key:
            self._keys[name] = key
            heappush(self._heap, (key, name))

    def drop(self, name: str) -> None:
        self._keys.pop(name, None)

    def first(self) -> str | None:
        while self._heap:
            key, name = self._heap[0]
            if self._keys.get(name) == key:
                return name
            heappop(self._heap)
        return None


class Blocked:
    """The heads of the blocked lines, in all, by pool and by project."""

    def __init__(self) -> None:
        self._heads: dict[Position, Head] = {}
        self._in_pool: dict[str, dict[Position, Head]] = defaultdict(dict)
        self._of_project: dict[str, dict[Position, Head]] = defaultdict(dict)

    def add(self, head: Head) -> None:
        for heads in self._kept_in(head):
            heads[head.place] = head

    def remove(self, head: Head) -> None:
        for heads in self._kept_in(head):
            del heads[head.place]

    def everyone(self) -> Iterable[Head]:
        return self._heads.values()

    def in_pool(self, pool: str) -> Iterable[Head]:
        """The heads whose jobs accept the pool."""
        return self._in_pool[pool].values()

    def of_project(self, project: str) -> Iterable[Head]:
        return self._of_project[project].values()

    def _kept_in(self, head: Head) -> Iterator[dict[Position, Head]]:
        yield self._heads
        yield self._of_project[head.job.project]
        for pool in head.job.pools:
            yield self._in_pool[pool]


class TurnOrder:
    """Gives each waiting job its turn. A blocked job blocks the rest of its line."""

    def __init__(
        self,
        lines: Iterable[Sequence[Job]],
        accounts: Accounts,
        again: Revisits,
        *,
        yields: Yields = NO_YIELDS,
    ) -> None:
        """`lines`: all that take turns, each in the policy's order."""
        self._accounts = accounts
        self._again = again
        self._yields = yields
        self._heads: dict[str, list[Head]] = {}
        """By project, a heap with the head of each line."""
        for line in lines:
            behind = iter(line)
            first = next(behind)
            head = Head(position(first, yields), first, behind)
            self._heads.setdefault(first.project, []).append(head)
        for heads in self._heads.values():
            heapify(heads)
        by_first = sorted(self._heads, key=lambda name: self._heads[name][0].place)
        self._ages = {name: age for age, name in enumerate(by_first)}
        self._departments = Ranking()
        """By account key. A project without a department stands for itself."""
        self._projects: dict[str, Ranking] = defaultdict(Ranking)
        """The projects of each department."""
        self._where: dict[str, str] = {}
        """By project, the department in which the project is ranked."""
        self._given: Head | None = None
        """The head of the last turn. The next job of its line follows after the turn."""
        self._stale = set(self._heads)
        """Projects whose keys may have changed."""
        self._blocked = Blocked()
        self._losses: Counter[str] = Counter()
        """By job, how often it was tried again after losing the slots that this plan gave it."""
        self._opened = accounts.gates_opened
        """`gates_opened` of the accounts when the blocked jobs were last revisited."""
        self._stirred = False
        """Whether a job has lost or changed the slots that this plan gave it, since then."""
        self._served = False
        """Whether a turn has served a job since then."""

    def next(self) -> Job | None:
        """The job whose turn it is; None when no turn is left.

        Blocked jobs with prospects are revisited when a project has come above its share or quota,
        when a job has lost or changed the slots that this plan gave it, or when a pool drains in
        vain. Where an eviction freed more than needed, only those are revisited that could evict a
        job started in this plan. Each time, the jobs that pools drained for come back too.
        """
        job = self._next()
        if job is None and self._ask_the_blocked():
            job = self._next()
        return job

    def _ask_the_blocked(self) -> bool:
        opened, self._opened = self._opened, self._accounts.gates_opened
        stirred, self._stirred = self._stirred, False
        served, self._served = self._served, False
        surplus = self._again.leaves_surplus()
        moved = stirred or self._opened != opened or (served and self._again.drains_in_vain())
        if not moved and not surplus:
            return False
        # Slots still coming free start no job, so a surplus concerns only jobs that could evict.
        concerned = _everyone if moved else self._again.could_take_back()
        # A job that a pool drained for may now come behind a revisited job.
        drained = self._again.undrain()
        again = [
            head
            for head in self._blocked.everyone()
            if (drained and {head.job.name, head.job.group} & drained)
            or (concerned(head.job) and self._again.has_prospects(head.job))
        ]
        self._unblock(again)
        return bool(again)

    def _unblock(self, heads: Iterable[Head]) -> None:
        for head in heads:
            self._blocked.remove(head)
            self._bring_back(head)

    def _bring_back(self, head: Head) -> None:
        heappush(self._heads[head.job.project], head)
        self._stale.add(head.job.project)

    def _next(self) -> Job | None:
        self._move_up()
        moved = self._accounts.moved()
        departments = {*moved.values()}
        for project in self._stale.union(moved):
            departments.update(self._place(project))
        for department in departments:
            self._place_department(department)
        self._stale.clear()
        first = self._departments.first()
        if first is None:
            return None
        self._given = heappop(self._heads[self._projects[first].first() or ""])
        self._stale.add(self._given.job.project)
        return self._given.job

    def block(self) -> None:
        """Block the job whose turn it was, and the rest of its line."""
        assert self._given is not None
        self._blocked.add(self._given)
        self._given = None

    def ask_again(self, losers: Iterable[Job], left: Mapping[str, Demand]) -> None:
        """Try again, at their places, the jobs that lost the slots this plan gave them.

        Otherwise the next plan would try them, and might evict jobs served since. A job comes back
        at most `MOST_LOSSES` times in a plan.

        `left`: free capacity by pool. Blocked jobs that accept the pool and fit into it, or are
        part of a group, come back too.
        """
        self._stirred = True
        for job in losers:
            if self._losses[job.name] < MOST_LOSSES:
                self._losses[job.name] += 1
                self._bring_back(Head(position(job, self._yields), job, iter(())))
        suited = {
            head.place: head
            for pool, free in left.items()
            for head in self._blocked.in_pool(pool)
            if head.job.group or head.job.demand.within(free)
        }
        self._unblock(suited.values())

    def _move_up(self) -> None:
        """Bring forward the next job of the line, unless the last turn blocked it."""
        if self._given:
            self._served = True
            self._unblock_above(self._given.job)
        if self._given and (job := next(self._given.behind, None)):
            place = position(job, self._yields)
            heappush(self._heads[job.project], Head(place, job, self._given.behind))
        self._given = None

    def _unblock_above(self, job: Job) -> None:
        """Revisit the project's blocked jobs that outrank the job just served and may now evict it.

        A job that would take its project beyond its share needs victims in that project.
        """
        blocked = self._blocked.of_project(job.project)
        above = [head for head in blocked if rank(head.job) > rank(job)]
        if above and (job.claim or self._accounts.has_its_share(job)):
            self._unblock([head for head in above if self._again.has_prospects(head.job)])

    def _place(self, project: str) -> Iterator[str]:
        """Rank the project anew. Yield the departments whose own rank that may change."""
        before = self._where.get(project, "")
        yield before
        heads = self._heads.get(project)
        if not heads:
            self._projects[before].drop(project)
            return
        job = heads[0].job
        chain = self._accounts.of(job, job.pools[0])
        now = chain[-1].key if chain else NO_BOOKS
        if now != before:
            self._where[project] = now
            self._projects[before].drop(project)
            yield now
        key = chain[0].asking(job.demand) if chain else (self._ages[project],)
        self._projects[now].put(project, key)

    def _place_department(self, department: str) -> None:
        """Rank the department by the first job of its most deprived project."""
        project = self._projects[department].first()
        if project is None:
            self._departments.drop(department)
            return
        job = self._heads[project][0].job
        chain = self._accounts.of(job, job.pools[0])
        self._departments.put(department, chain[-1].asking(job.demand) if chain else ())


def _everyone(_: Job) -> bool:
    return True
