"""Lines: waiting jobs that are blocked alike, so that only the first few of each need a look.

Jobs of one line differ in nothing that the walk asks about but their place: when one of them is
blocked, so is every one behind it. The cost of a pass then grows with lines and slots, never with
jobs. (A claimant stands outside: it has a claim that the others have not.)
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from slotq_core.model import Demand, Job, JobState, Pool, Workload
from slotq_core.policy.order import Rank, rank, rank_of


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """What the jobs of a line have in common. The priority is among it: with it the first of a line
    is also the one that has waited longest, which `reserve_after` asks for."""

    workload: Workload
    priority: int
    project: str
    demand: Demand
    pools: tuple[str, ...]
    preemptible: bool

    @classmethod
    def of(cls, job: Job) -> Line:
        return cls(
            workload=job.workload,
            priority=job.priority,
            project=job.project,
            demand=job.demand,
            pools=job.pools,
            preemptible=job.preemptible,
        )

    @property
    def rank(self) -> Rank:
        """As `order.rank` of each of its jobs."""
        return rank_of(self.workload, self.priority)

    @property
    def key(self) -> str:
        """The line as a string for the store; `parse` reads it back."""
        parts = [
            self.workload,
            self.priority,
            self.project,
            dict(self.demand),
            self.pools,
            self.preemptible,
        ]
        return json.dumps(parts, separators=(",", ":"))

    @classmethod
    def parse(cls, key: str) -> Line:
        workload, priority, project, demand, pools, preemptible = json.loads(key)
        return cls(
            workload=Workload(workload),
            priority=priority,
            project=project,
            demand=Demand(demand),
            pools=tuple(pools),
            preemptible=preemptible,
        )


def line_of(job: Job) -> str:
    return Line.of(job).key


def heads_needed(
    lines: Iterable[str],
    pools: Sequence[Pool],
    active: Iterable[Job],
    claimants: Iterable[Job] = (),
    *,
    projects: bool = False,
) -> dict[str, int]:
    """How many jobs of each line, from its first, a plan cannot tell apart from all of them.

    As many as could start now, or later on slots that come free or are evicted for anybody; and one
    more, the first that is blocked, which stands for the rest. Claimants are loaded besides and may
    be among the first, so they count extra. Where there are `projects`, what each asks for decides
    about shares, up to all that there is of each resource; and anything may be reclaimed.
    """
    about = {line: Line.parse(line) for line in lines}
    owed = Counter(line_of(job) for job in claimants)
    top = max((Line.parse(line).rank for line in {*about, *owed}), default=(0, 0))
    room = {pool.name: pool.offers for pool in pools}
    everything = sum(room.values(), Demand()) if projects else Demand()
    for job in active:
        assert job.attempt is not None
        stays = not projects and job.state is not JobState.STOPPING and rank(job) >= top
        if stays and job.attempt.pool in room:
            room[job.attempt.pool] -= job.demand
    heads = {}
    for line, each in about.items():
        could_start = sum(_times(each.demand, room[name]) for name in each.pools if name in room)
        heads[line] = max(could_start, _asking_for_all(each.demand, everything)) + 1 + owed[line]
    return heads


def _asking_for_all(demand: Demand, everything: Demand) -> int:
    """How many such demands ask for all that there is of each resource that they name."""
    return max((-(-everything[name] // amount) for name, amount in demand.items()), default=0)


def _times(demand: Demand, room: Demand) -> int:
    """How many such demands fit into the room."""
    return max(0, min((room[name] // amount for name, amount in demand.items()), default=0))
