"""Lines: waiting jobs that are blocked alike, so that only the first few of each need a look.

Jobs of one line differ in nothing that the walk asks about but their place: when one of them is
blocked, so is every one behind it. Where users matter (`by_user`) they are of one user and, for its
limits, of one class. The cost of a pass then grows with lines and slots, never with
jobs. (A claimant stands outside: it has a claim that the others have not.)
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
"""Of how many jobs behind a blocked one in its line a plan says that their attempts have failed."""


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
"""All that `in_lines` looks at: jobs that are the same in it are of one line."""


class Line(NamedTuple):
    """What the jobs of a line have in common. The priority is among it: with it the first of a line
    is also the one that has waited longest, which `reserve_after` asks for.

    A tuple, because a plan makes and compares many.
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
    """A short hash of its execution role: a right that one role lacks blocks no other role's jobs.
    """

    @classmethod
    def of(cls, job: Job, *, by_user: bool = False) -> Line:
        return cls(  # By position, which is quicker.
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
        """As `order.rank` of each of its jobs."""
        return rank_of(self.workload, self.priority)

    @property
    def of_a_user(self) -> bool:
        """Whether users are told apart here."""
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
    """A role in a line's key, which DynamoDB ends at 1,024 bytes; empty where none is known."""
    return hashlib.sha256(arn.encode()).hexdigest()[:12] if arn else ""


def by_user(snapshot: Snapshot) -> bool:
    """Whether lines tell users apart: where user limits or time slices exist, and where a project
    may reclaim or a pool consolidates, for a user's job is never interrupted for another of the
    same user and rank."""
    apart = any(pool.time_slice is not None or pool.consolidate for pool in snapshot.pools)
    return apart or bool(snapshot.users) or len(snapshot.projects) > 1


def line_of(job: Job, *, by_user: bool = False) -> str:
    return Line.of(job, by_user=by_user).key


def in_lines(waiting: Iterable[Job], *, by_user: bool = False) -> list[list[Job]]:
    """These jobs line by line, each line in the policy's order. A claimant is a line of its own.

    A line is made only for the first of those that are alike, and they mostly come in a row.
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
        line.sort(key=attrgetter("entry_time", "name"))  # `position`, as the rank is the line's
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
    """`heads_of` for lines by their keys in the store."""
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
    """How many jobs of each line, from its first, a plan cannot tell apart from all of them.

    As many as could start now, or later on slots that come free or are evicted for anybody; and one
    more, the first that is blocked, which stands for the rest. Claimants are loaded besides and may
    be among the first, so they count extra. Where there are `projects`, what each asks for decides
    about shares, up to all that there is of each resource; and anything may be reclaimed. Of a gang
    all is needed. Where `attempts` to start a job count, each job of a blocked line has had one: so
    many more are looked at as one plan tells of.
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
    """Whether it may be stopped for a job of the highest rank that waits: one of equal rank yields
    to a time slice."""
    assert job.attempt is not None
    its = rank(job)
    return its < top or (its == top and job.attempt.pool in sliced)


def _asking_for_all(demand: Demand, everything: Demand) -> int:
    """How many such demands ask for all that there is of each resource that they name."""
    return max((-(-everything[name] // amount) for name, amount in demand.items()), default=0)


def _could_run(line: Line, room: Mapping[str, Demand]) -> int:
    """How many jobs of the line fit into the rooms of its pools, each room taken for itself."""
    if line.parts:
        return max(_times(demand, room.get(name, Demand())) for name, demand in line.parts)
    return sum(_times(line.demand, room[name]) for name in line.pools if name in room)


def _times(demand: Demand, room: Demand) -> int:
    """How many such demands fit into the room."""
    return max(0, min((room[name] // amount for name, amount in demand.items()), default=0))
