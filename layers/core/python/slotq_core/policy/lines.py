"""Lines: equivalence classes of waiting jobs, which are blocked alike.

For the walk, jobs of one line differ only in their place: when one is blocked, so are all behind
it. Where users matter (`by_user`), a line has one user and one class in that user's limits. A plan
examines only the first few jobs of each line. So the cost of a pass grows with lines and slots, not
with jobs. A claimant shares no line, because of its claim.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from slotq_core.model.demand import Demand
from slotq_core.model.groups import Group
from slotq_core.model.jobs import Job, JobState, Workload
from slotq_core.model.pools import Pool
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.order import Rank, rank, rank_of

TRIED_AT_ONCE = 100
"""How many more jobs of each line a plan needs, to record failed attempts behind a blocked job."""


_looked_at = attrgetter(
    "claim",
    "workload",
    "priority",
    "project",
    "group",
    "demand",
    "pools",
    "parts",
    "preemptible",
    "submitter",
    "priority_class",
    "admitted_class",
    "role",
)
"""All that `in_lines` compares: jobs that agree in it are of one line."""


class Line(NamedTuple):
    """What the jobs of a line have in common.

    The priority is part of it, so the first job of a line has also waited longest, as
    `reserve_after` needs. A tuple, because a plan makes and compares many lines.
    """

    workload: Workload
    priority: int
    project: str
    group: str
    demand: Demand
    pools: tuple[str, ...]
    parts: tuple[tuple[str, Demand], ...]
    preemptible: bool
    user: str = ""
    limited_as: str = ""
    """The class that counts in the user's limits."""
    role: str = ""
    """A short hash of the execution role: a missing right of one role blocks no other role."""

    @classmethod
    def of(cls, job: Job, *, by_user: bool = False) -> Line:
        return cls(  # Positional arguments are faster.
            job.workload,
            rank(job)[1],
            job.project,
            job.group,
            job.demand,
            job.pools,
            job.parts,
            job.preemptible,
            job.submitter if by_user else "",
            (job.admitted_class or job.priority_class) if by_user else "",
            short_role(job.role),
        )

    @property
    def rank(self) -> Rank:
        """The rank of each job of the line, as by `order.rank`."""
        return rank_of(self.workload, self.priority)

    @property
    def of_a_user(self) -> bool:
        """Whether the line tells users apart."""
        return bool(self.user or self.limited_as)

    @property
    def key(self) -> str:
        """The line as a string for the store; `parse` reads it back."""
        parts = [
            self.workload,
            self.priority,
            self.project,
            self.group,
            dict(self.demand),
            self.pools,
            [(pool, dict(amounts)) for pool, amounts in self.parts],
            self.preemptible,
        ]
        if self.of_a_user or self.role:
            parts += [self.user, self.limited_as]
        if self.role:
            parts.append(self.role)
        return json.dumps(parts, separators=(",", ":"))

    @classmethod
    def parse(cls, key: str) -> Line:
        first, whose = (parsed := json.loads(key))[:8], parsed[8:]
        workload, priority, project, group, demand, pools, parts, preemptible = first
        user, limited_as, role = [*whose, "", "", ""][:3]
        return cls(
            workload=Workload(workload),
            priority=priority,
            project=project,
            group=group,
            demand=Demand(demand),
            pools=tuple(pools),
            parts=tuple((pool, Demand(amounts)) for pool, amounts in parts),
            preemptible=preemptible,
            user=user,
            limited_as=limited_as,
            role=role,
        )


@lru_cache(maxsize=1024)
def short_role(arn: str) -> str:
    """A short hash of a role; empty for none. DynamoDB limits a line's key to 1,024 bytes."""
    return hashlib.sha256(arn.encode()).hexdigest()[:12] if arn else ""


def by_user(snapshot: Snapshot) -> bool:
    """Whether lines tell users apart: with user limits, time slices, consolidation or reclaim.

    The last two never interrupt a user's job for another job of the same user and rank.
    """
    apart = any(pool.time_slice is not None or pool.consolidate for pool in snapshot.pools)
    return apart or bool(snapshot.users) or len(snapshot.projects) > 1


def line_of(job: Job, *, by_user: bool = False) -> str:
    return Line.of(job, by_user=by_user).key


def in_lines(waiting: Iterable[Job], *, by_user: bool = False) -> list[list[Job]]:
    """Group jobs into lines, each in the policy's order. A claimant is a line of its own.

    For speed, makes one `Line` for all jobs that agree in `_looked_at`.
    """
    same: dict[object, list[Job]] = {}
    for looked_at, in_a_row in groupby(waiting, key=_looked_at):
        same.setdefault(looked_at, []).extend(in_a_row)
    lines: dict[Line, list[Job]] = {}
    alone = []
    for alike in same.values():
        if alike[0].claim is None:
            lines.setdefault(Line.of(alike[0], by_user=by_user), []).extend(alike)
        else:
            alone += [[job] for job in alike]
    for line in lines.values():
        line.sort(key=attrgetter("entry_time", "name"))  # Like `position`: a line has one rank.
    return [*lines.values(), *alone]


def heads_needed(
    lines: Iterable[str],
    pools: Sequence[Pool],
    active: Iterable[Job],
    claimants: Iterable[Job] = (),
    *,
    projects: bool = False,
    groups: Iterable[Group] = (),
    attempts: bool = False,
) -> dict[str, int]:
    """`heads_of` for the keys of lines in the store."""
    about = {line: Line.parse(line) for line in lines}
    needed = heads_of(
        about.values(),
        pools,
        active,
        claimants,
        projects=projects,
        groups=groups,
        attempts=attempts,
    )
    return {line: needed[each] for line, each in about.items()}


def heads_of(
    lines: Collection[Line],
    pools: Sequence[Pool],
    active: Iterable[Job],
    claimants: Iterable[Job] = (),
    *,
    projects: bool = False,
    groups: Iterable[Group] = (),
    attempts: bool = False,
) -> dict[Line, int]:
    """How many jobs from the head of each line give the same plan as all its jobs.

    These are the jobs that could start now, or on slots that come free or may be evicted, and one
    more: the first blocked job stands for the rest. Claimants are loaded separately and may be
    among the heads, so they add to the number.

    With `projects`, requests decide about fair shares up to the total of each resource, and any
    active job may be reclaimed. A gang needs all its members. With `attempts`, each line gets
    `TRIED_AT_ONCE` more, for the failed attempts behind a blocked job.
    """
    whose = any(line.of_a_user for line in lines)
    owed = Counter(Line.of(job, by_user=whose) for job in claimants)
    top = max((line.rank for line in {*lines, *owed}), default=(0, 0))
    everything = Demand.total(pool.offers for pool in pools) if projects else Demand()
    consolidated = {pool.name for pool in pools if pool.consolidate}
    sliced = {pool.name for pool in pools if pool.time_slice is not None}
    staying: dict[str, list[Demand]] = {pool.name: [] for pool in pools}
    for job in active:
        assert job.attempt is not None
        stays = not (projects or job.group) and job.state is not JobState.STOPPING
        stays = stays and job.attempt.pool not in consolidated and not _may_go(job, top, sliced)
        if stays and job.attempt.pool in staying:
            staying[job.attempt.pool].append(job.demand)
    room = {pool.name: pool.offers - Demand.total(staying[pool.name]) for pool in pools}
    gangs = {each.name: len(each.members) for each in groups if each.max_parallel is None}
    heads, tried = {}, TRIED_AT_ONCE if attempts else 0
    for line in lines:
        looked_at = max(_could_run(line, room), _asking_for_all(line.demand, everything))
        heads[line] = gangs.get(line.group) or looked_at + 1 + owed[line] + tried
    return heads


def _may_go(job: Job, top: Rank, sliced: Collection[str]) -> bool:
    """Whether the job may have to go for a waiting job of the highest rank.

    A lower rank is preempted; an equal rank yields in a pool with time slices.
    """
    assert job.attempt is not None
    its = rank(job)
    return its < top or (its == top and job.attempt.pool in sliced)


def _asking_for_all(demand: Demand, everything: Demand) -> int:
    """How many such demands it takes to ask for all of each resource that they name."""
    return max((-(-everything[name] // amount) for name, amount in demand.items()), default=0)


def _could_run(line: Line, room: Mapping[str, Demand]) -> int:
    """An upper bound on the jobs of the line that fit into its pools, each pool on its own."""
    if line.parts:
        return max(_times(demand, room.get(name, Demand())) for name, demand in line.parts)
    return sum(_times(line.demand, room[name]) for name in line.pools if name in room)


def _times(demand: Demand, room: Demand) -> int:
    """How many such demands fit into the room."""
    return max(0, min((room[name] // amount for name, amount in demand.items()), default=0))
