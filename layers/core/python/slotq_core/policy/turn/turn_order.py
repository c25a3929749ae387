"""The order of turns: the first job of the most deprived project in the most deprived department.

`Account.deprivation` (state/quotas/account.py) is the measure. Projects are ranked again after each
decision; only keys that the decision may have changed are computed again. So the cost of a turn
grows with the logarithm of the number of waiting jobs, never with the number of projects.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Generator, Iterable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Any, NamedTuple

from slotq_core.model.jobs import Job
from slotq_core.policy.lines import WaitingLine
from slotq_core.policy.order import Position, position
from slotq_core.policy.plan import Found, Need
from slotq_core.policy.state.plan_state import PlanState
from slotq_core.policy.state.quotas.account import Account, Chain

Key = tuple[Any, ...]

NO_BOOKS = ""
"""The department of projects without an account. It comes before all others."""


class Head(NamedTuple):
    """A job that represents its line. Heads sort by place, and no two places are equal."""

    place: Position
    job: Job
    line: WaitingLine
    at: int
    """The place of the job among `line.jobs`."""


class Ranking:
    """The names in order of their keys, while keys change: the smallest key first, then the name.
    The heap keeps outdated entries; `first` discards them at the top."""

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


class BlockedHeads:
    """The heads of the blocked lines by job name: in all, by pool and by project."""

    def __init__(self) -> None:
        self._heads: dict[str, Head] = {}
        self._in_pool: dict[str, dict[str, Head]] = defaultdict(dict)
        self._of_project: dict[str, dict[str, Head]] = defaultdict(dict)

    def add(self, head: Head) -> None:
        job = head.job
        self._heads[job.name] = self._of_project[job.project][job.name] = head
        for pool in job.pools:
            self._in_pool[pool][job.name] = head

    def remove(self, head: Head) -> None:
        job = head.job
        del self._heads[job.name], self._of_project[job.project][job.name]
        for pool in job.pools:
            del self._in_pool[pool][job.name]

    def everyone(self) -> Iterable[Head]:
        return self._heads.values()

    def in_pool(self, pool: str) -> Iterable[Head]:
        """The heads whose jobs accept the pool."""
        return self._in_pool[pool].values()

    def of_project(self, project: str) -> Iterable[Head]:
        return self._of_project[project].values()


class TurnOrder:
    """Gives each waiting job its turn. A blocked job blocks the rest of its line."""

    def __init__(self, state: PlanState) -> None:
        self._state, self._accounts = state, state.accounts
        self.blocked = BlockedHeads()
        self._heads: dict[str, list[Head]] = defaultdict(list)
        """By project, the head of each line that takes turns, in order."""
        for line in state.lines:
            job = line.jobs[0]
            self._heads[job.project].append(Head(position(job, state.precedence), job, line, 0))
        for heads in self._heads.values():
            heads.sort()
        by_first = sorted(self._heads, key=lambda name: self._heads[name][0].place)
        self._ages = {name: age for age, name in enumerate(by_first)}
        self._departments = Ranking()
        """By account key. A project without a department is ranked as one."""
        self._projects: dict[str, Ranking] = defaultdict(Ranking)
        """The projects of each department."""
        self._alone: dict[str, str] = {}
        """The projects without a department, by account key."""
        self._where: dict[str, str] = {}
        """By project, the department in which the project is ranked."""
        self._stale = set(self._heads)
        """Projects whose keys may have changed."""
        self._first: tuple[str, Job, Chain] | None = None
        """The project that is first, and the job and accounts by which it was ranked there."""

    def next(self) -> Head | None:
        """The head whose turn it is; None when no turn is left. The caller then blocks it, goes on
        behind it, reads its line or puts it back."""
        moved = self._accounts.moved()
        if moved or not self._is_first_still():
            self._rank_again(moved)
        if self._first is None:
            return None
        first = self._first[0]
        self._stale.add(first)
        return self._heads[first].pop(0)

    def block(self, head: Head) -> None:
        """Block the job whose turn it was, and the rest of its line."""
        self.blocked.add(head)
        self._state.journal.record(TurnOrder._unblock, self, head)

    def go_on(self, head: Head) -> Generator[Need, Found, None]:
        """Bring forward the next job of a line whose job was served."""
        self._state.journal.record(TurnOrder.put_back, self, head)
        yield from self.know(head.line, head.at + 1)
        if head.at + 1 < len(head.line.jobs):
            job = head.line.jobs[head.at + 1]
            self._put(Head(position(job, self._state.precedence), job, head.line, head.at + 1))

    def read(self, head: Head) -> Generator[Need, Found, None]:
        """Bring forward the first job of a line, of which only a stand-in was known."""
        self._state.journal.record(TurnOrder.put_back, self, head)
        line = head.line
        if line.jobs and line.jobs[0] is head.job:
            found = yield Need(after=head.job, count=1)
            self._state.waiting |= {job.name: job for job in found.jobs}
            line.jobs, line.behind = [*found.jobs], found.behind if found.jobs else 0
        if line.jobs:
            self._put(Head(position(line.jobs[0], self._state.precedence), line.jobs[0], line, 0))

    def know(self, line: WaitingLine, index: int) -> Generator[Need, Found, None]:
        """Learn the jobs of the line up to this index, as far as there are any. Asks for as many as
        are known already, so that a line is read in few steps."""
        while index >= len(line.jobs) and line.behind:
            last = line.jobs[-1]
            found = yield Need(after=last, count=max(len(line.jobs), index + 1 - len(line.jobs)))
            place = (last.entry_time, last.name)
            assert all(place < (job.entry_time, job.name) for job in found.jobs), "out of order"
            self._state.waiting |= {job.name: job for job in found.jobs}
            line.jobs += found.jobs
            line.behind = found.behind if found.jobs else 0

    def try_again(self, heads: Sequence[Head]) -> bool:
        """Give blocked jobs another turn, at their places. Return whether there are any."""
        for head in heads:
            self.blocked.remove(head)
            self._state.journal.record(BlockedHeads.add, self.blocked, head)
            self._put(head)
        return bool(heads)

    def put_back(self, head: Head) -> None:
        """Give the head a turn at its place, as if it had had none."""
        insort(self._heads[head.job.project], head)
        self._stale.add(head.job.project)

    def _unblock(self, head: Head) -> None:
        self.blocked.remove(head)
        self.put_back(head)

    def _put(self, head: Head) -> None:
        self._state.journal.record(TurnOrder._remove, self, head)
        self.put_back(head)

    def _remove(self, head: Head) -> None:
        heads = self._heads[head.job.project]
        del heads[bisect_left(heads, head)]
        self._stale.add(head.job.project)

    def _is_first_still(self) -> bool:
        """Whether the first project need not be ranked again: only its heads have changed, and its
        next job asks for no more than the one by which it was ranked. A smaller demand makes no
        project or department less deprived."""
        if self._first is None:
            return False
        project, ranked, chain = self._first
        if self._stale != {project} or not self._heads[project]:
            return False
        job = self._heads[project][0].job
        if job.claim or ranked.claim or not job.demand.within(ranked.demand):
            return False
        pool, shared = job.pools[0], self._accounts.shared
        if shared is not None and (
            pool != ranked.pools[0] or not shared.of(job, pool).within(shared.of(ranked, pool))
        ):
            return False
        return self._accounts.of(job, pool) is chain

    def _rank_again(self, moved: Mapping[str, str]) -> None:
        """Rank the projects and departments again whose keys may have changed."""
        departments = {key for key in moved.values() if key not in self._alone}
        for project in self._stale.union(moved) if moved else self._stale:
            self._place_project(project, departments)
        for department in departments:
            self._place_department(department)
        self._stale.clear()
        top = self._departments.first()
        self._first = None
        if top is not None and (first := self._first_of(top)) is not None:
            job = self._heads[first][0].job
            self._first = first, job, self._accounts.of(job, job.pools[0])

    def _place_project(self, project: str, departments: set[str]) -> None:
        """Rank the project again. Add to `departments` those whose own rank may change with it."""
        before = self._where.get(project, NO_BOOKS)
        heads = self._heads.get(project)
        if not heads:
            departments.add(before)
            self._projects[before].drop(project)
            return
        job = heads[0].job
        chain = self._accounts.of(job, job.pools[0])
        now = chain[-1].key if chain else NO_BOOKS
        if now != before:
            self._where[project] = now
            self._projects[before].drop(project)
            departments.add(before)
        key = self._deprivation(chain[0], job) if chain else (self._ages[project],)
        if len(chain) == 1:
            self._alone[now] = project
            self._departments.put(now, key)
        else:
            self._projects[now].put(project, key)
            departments.add(now)

    def _first_of(self, department: str) -> str | None:
        """The most deprived project of a department, or the project without a department."""
        if department in self._alone:  # The project's name may be empty.
            return self._alone[department]
        return self._projects[department].first()

    def _place_department(self, department: str) -> None:
        """Rank the department by the first job of its most deprived project."""
        project = self._first_of(department)
        if project is None or not self._heads[project]:
            self._departments.drop(department)
            return
        job = self._heads[project][0].job
        chain = self._accounts.of(job, job.pools[0])
        self._departments.put(department, self._deprivation(chain[-1], job) if chain else ())

    def _deprivation(self, account: Account, job: Job) -> Key:
        """The key of an account whose first job this is. The job counts once, also with a claim."""
        pool, shared = job.pools[0], self._accounts.shared
        asked = job.demand if shared is None else shared.of(job, pool)
        return account.deprivation(asked, self._state.own_claims(job, pool))
