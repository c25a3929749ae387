"""Whose turn it is: the most deprived department's most deprived project's first job.

The order between projects is asked anew after each decision, for every admission changes who is
deprived. Within a project it stands. The cost of a turn grows with the logarithm of what waits,
never with the number of projects: keys are made anew only where a decision moved something.
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
"""How often one job may lose in one plan what it was given in it, and be asked again: so that each
plan ends."""

NO_BOOKS = ""
"""Stands for the department of projects that have no account: they come before all others."""


class Head(NamedTuple):
    """The first job of a line. Heads sort by their places, no two of which are equal."""

    place: Position
    job: Job
    behind: Iterator[Job]
    """The rest of the line."""


class Ranking:
    """Who of several comes first, while their keys change: the smallest key, then the name.

    A heap in which a changed key stands a second time; what is out of date is thrown away when it
    comes to the top.
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
    """The first jobs of the lines whose turns brought nothing; also by pool and by project."""

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
        """Those that accept it."""
        return self._in_pool[pool].values()

    def of_project(self, project: str) -> Iterable[Head]:
        return self._of_project[project].values()

    def _kept_in(self, head: Head) -> Iterator[dict[Position, Head]]:
        yield self._heads
        yield self._of_project[head.job.project]
        for pool in head.job.pools:
            yield self._in_pool[pool]


class TurnOrder:
    """Gives each waiting job its turn; those behind a blocked one of their line get none."""

    def __init__(
        self,
        lines: Iterable[Sequence[Job]],
        accounts: Accounts,
        again: Revisits,
        *,
        yields: Yields = NO_YIELDS,
    ) -> None:
        """`lines`: of all that take turns, each in the policy's order."""
        self._accounts = accounts
        self._again = again
        self._yields = yields
        self._heads: dict[str, list[Head]] = {}
        """By project, a heap: its lines, each by its first job."""
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
        """By the name of its account; a project without a department stands for itself."""
        self._projects: dict[str, Ranking] = defaultdict(Ranking)
        """By department."""
        self._where: dict[str, str] = {}
        """The department that each project is ranked in."""
        self._given: Head | None = None
        """Whose turn it was last; those behind it have no head until it is known to have passed."""
        self._stale = set(self._heads)
        """Projects whose keys may have changed."""
        self._blocked = Blocked()
        self._losses: Counter[str] = Counter()
        """How often each was asked again because it had lost what it had been given."""
        self._opened = accounts.gates_opened
        """How many gates had opened when the blocked were last asked."""
        self._stirred = False
        """Whether what was given in this plan has been lost, or given elsewhere, since then."""
        self._served = False
        """Whether anybody has been served since then."""

    def next(self) -> Job | None:
        """The job whose turn it is; None when all have had theirs.

        "After a decision the walk begins anew": those blocked before are asked again where projects
        have come above their share or quota since, or jobs have lost what they had been given, or
        have it elsewhere now, or a pool drains in vain, for only that can bring them anything. And
        where more was evicted than is needed, those who would have what starts evicted for the rest
        of what they need.
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
        # What only comes free brings nobody a start, so no more than who gives way for it.
        concerned = _everyone if moved else self._again.could_take_back()
        # Those that pools drained for may come behind whoever is asked again.
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
        """The job whose turn it was is blocked, and so are those behind it in its line."""
        assert self._given is not None
        self._blocked.add(self._given)
        self._given = None

    def ask_again(self, losers: Iterable[Job], left: Mapping[str, Demand]) -> None:
        """They have lost what they were given in this plan. Each is asked again, at its place: the
        next plan would, and might then take it from those that were served since.

        `left`: what of it is free now, by pool, for the first of those blocked that it suits.
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
        """Where the job that had its turn is not blocked, the next of its line comes forward."""
        if self._given:
            self._served = True
            self._unblock_above(self._given.job)
        if self._given and (job := next(self._given.behind, None)):
            place = position(job, self._yields)
            heappush(self._heads[job.project], Head(place, job, self._given.behind))
        self._given = None

    def _unblock_above(self, job: Job) -> None:
        """What its project has beyond its share, only its own project's jobs may be evicted for:
        now those that outrank it may have this one evicted."""
        blocked = self._blocked.of_project(job.project)
        above = [head for head in blocked if rank(head.job) > rank(job)]
        if above and (job.claim or self._accounts.has_its_share(job)):
            self._unblock([head for head in above if self._again.has_prospects(head.job)])

    def _place(self, project: str) -> Iterator[str]:
        """Rank the project anew. Yields the departments whose own place that may change."""
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
        """It stands for itself by the first job of its own most deprived project."""
        project = self._projects[department].first()
        if project is None:
            self._departments.drop(department)
            return
        job = self._heads[project][0].job
        chain = self._accounts.of(job, job.pools[0])
        self._departments.put(department, chain[-1].asking(job.demand) if chain else ())


def _everyone(_: Job) -> bool:
    return True
