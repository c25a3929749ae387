"""One turn of a gang: the steps of a single job's turn, for all its members at once or not at all.

Each step is tried on the working sheets themselves and taken back where too few members fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from slotq_core.model import Demand, Job
from slotq_core.policy.fit import PoolRoom
from slotq_core.policy.gang import Gang
from slotq_core.policy.plan import Decision, Start, StartGang

Step = Callable[[Job, Sequence[PoolRoom]], bool]
"""Tries to give one member its slots in one of these rooms."""


class Turn(Protocol):
    """What a gang's turn asks of the walk. Each step says whether it served the member."""

    def mark(self) -> Any: ...
    def back_to(self, mark: Any) -> None: ...
    def start_member(self, job: Job, rooms: Sequence[PoolRoom]) -> bool: ...
    def hold_member(self, job: Job, rooms: Sequence[PoolRoom]) -> bool: ...
    def reclaim_member(self, job: Job, rooms: Sequence[PoolRoom]) -> bool: ...
    def preempt_member(self, job: Job, rooms: Sequence[PoolRoom]) -> bool: ...
    def room_now(self, job: Job, room: PoolRoom) -> Demand: ...
    def room_soon(self, job: Job, room: PoolRoom) -> Demand: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Together:
    """A gang's members, in the order in which they are served, and the rooms that each may use."""

    walk: Turn
    gang: Gang
    jobs: Sequence[Job]
    rooms: Mapping[str, Sequence[PoolRoom]]

    def start(self) -> list[str]:
        """As many as fit now, where they are enough: their names, else none."""
        return self._whole(self.walk.start_member, self.walk.room_now, all_that_fit=True)

    def wait_for_coming(self) -> list[str]:
        return self._whole(self.walk.hold_member, self.walk.room_soon)

    def reclaim(self) -> list[str]:
        return self._whole(self.walk.reclaim_member, self.walk.room_soon)

    def preempt(self) -> list[str]:
        return self._whole(self.walk.preempt_member, self.walk.room_soon)

    def _whole(
        self, step: Step, room_of: Callable[[Job, PoolRoom], Demand], *, all_that_fit: bool = False
    ) -> list[str]:
        for pools in self.gang.allowed_pools():
            mark = self.walk.mark()
            served: list[str] = []
            rooms = {
                job.name: [room for room in self.rooms[job.name] if room.pool.name in pools]
                for job in self.jobs
            }
            target = assign(
                self.jobs,
                {name: [room.pool.name for room in usable] for name, usable in rooms.items()},
                {
                    room.pool.name: room_of(job, room)
                    for job in self.jobs
                    for room in rooms[job.name]
                },
            )
            for job in self.jobs:
                if not all_that_fit and self.gang.enough(served):
                    break
                chosen = target.get(job.name)
                usable = [r for r in rooms[job.name] if chosen is None or r.pool.name == chosen]
                if step(job, usable):
                    served.append(job.name)
            if self.gang.enough(served):
                return served
            self.walk.back_to(mark)
        return []


def whole(decisions: Iterable[Decision], gangs: Mapping[str, Gang]) -> Iterator[Decision]:
    """The starts of a gang's members as one decision, in the place of the first."""
    starts: dict[str, list[Start]] = {}
    ordered: list[Decision | str] = []
    for decision in decisions:
        group = decision.job.group if isinstance(decision, Start) else ""
        if not isinstance(decision, Start) or group not in gangs or gangs[group].runs:
            ordered.append(decision)
        elif group in starts:
            starts[group].append(decision)
        else:
            starts[group] = [decision]
            ordered.append(group)
    for each in ordered:
        yield StartGang(group=each, starts=tuple(starts[each])) if isinstance(each, str) else each


def assign(
    jobs: Sequence[Job], pools: Mapping[str, Sequence[str]], room: Mapping[str, Demand]
) -> dict[str, str]:
    """A pool for each of as many jobs as fit, those first in the sequence surely where they can be:
    by job name.

    A job that finds no room moves others to further pools of theirs (augmenting paths): exact where
    all need alike, else a good guess. `pools`: by job name, the most welcome first.
    """
    return _Assignment(jobs, pools, room).made()


class _Assignment:
    def __init__(
        self, jobs: Sequence[Job], pools: Mapping[str, Sequence[str]], room: Mapping[str, Demand]
    ) -> None:
        self._jobs, self._pools = jobs, pools
        self._left = dict(room)
        self._at: dict[str, str] = {}
        self._in: dict[str, list[Job]] = {name: [] for name in room}

    def made(self) -> dict[str, str]:
        for job in self._jobs:
            self._place(job, set())
        return self._at

    def _place(self, job: Job, tried: set[str]) -> bool:
        pools = [pool for pool in self._pools[job.name] if pool not in tried]
        for pool in pools:
            if job.demand.within(self._left[pool]):
                self._put(job, pool)
                return True
        for pool in pools:
            if pool not in tried:
                tried.add(pool)
                if self._make_room(job, pool, tried):
                    self._put(job, pool)
                    return True
        return False

    def _make_room(self, job: Job, pool: str, tried: set[str]) -> bool:
        for other in list(self._in[pool]):
            if job.demand.within(self._left[pool] + other.demand):
                self._take(other, pool)
                if self._place(other, tried):
                    return True
                self._put(other, pool)
        return False

    def _put(self, job: Job, pool: str) -> None:
        self._left[pool] = self._left[pool] - job.demand
        self._at[job.name] = pool
        self._in[pool].append(job)

    def _take(self, job: Job, pool: str) -> None:
        self._left[pool] = self._left[pool] + job.demand
        del self._at[job.name]
        self._in[pool].remove(job)
