"""Lines: equivalence classes of waiting jobs, which are blocked alike.

For a plan, jobs of one line differ only in their place: when one is blocked, so are all behind it.
Where users matter (`by_user`), each line has one user and one class in that user's limits. A line
of a project always has one user: version 0.2.0 separated users there, and the name of the line
locates a stored job. So does a line with `gpus`: some nodes take one person's jobs only. A store
keeps each job in the line that the job itself names (`Job.line_by_user`). It reads a whole line if
the plan has to separate users and the line does not.
A plan begins with the first job of each line and asks for more where it serves a line. So the cost
of a pass grows with lines and decisions, not with jobs. A claimant has a line of its own.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple

from slotq_core.gpu_amounts import Gpus, gpus_number, read_gpus
from slotq_core.model.demand import Demand
from slotq_core.model.groups import Group
from slotq_core.model.jobs import Job, Preemptible, Workload
from slotq_core.model.pools import Pool
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.order import Rank, rank, rank_of

_FORM = 2
"""The form of a line's name in the store, which the name begins with.

The form rises when handlers of earlier versions must not enter this version's lines any more: they
go on in lines of their own, whose jobs a pass moves over. Since form 2, a change that returns a
job to a line removes the line's lower bound first; form 1 had no number. """

TRIED_AT_ONCE = 100
"""How many jobs behind a blocked one a plan records failed attempts for, at most."""


class Line(NamedTuple):
    """The common fields of the jobs of a line. The priority is one of them, so the first job has
    also waited longest, as `reserve_after` needs."""

    workload: Workload
    priority: int
    project: str
    group: str
    demand: Demand
    pools: tuple[str, ...]
    parts: tuple[tuple[str, Demand], ...]
    preemptible: Preemptible
    user: str = ""
    limited_as: str = ""
    """The first of the classes that may count in the user's limits. The others follow from it and
    the priority (`Rights.come_through`)."""
    role: str = ""
    """A short hash of the execution role: a missing right of one role blocks no other role."""
    by_user: bool = False
    """Whether the stored line has one user and one class (`Job.line_by_user`)."""
    refused_in: tuple[str, ...] = ()
    """As in the jobs: there they take only free slots, and they try their other pools first."""
    gpus: Gpus = 0
    """As in the jobs: what they take of a node. The jobs of a line fit the same nodes."""
    tenant: str = ""
    longest_attempt: int = 0
    """As in the jobs (ms): nodes that end before it are none for them. So are pools that close
    before, for jobs that are not always preemptible or have no checkpoints; for others it is 0."""
    warm_key: str = ""
    """As in the jobs: they start on the same warm instances."""
    at_least: int = 0
    """What is left of the jobs' maximum runtime (ms) is this, or more by less than a quarter; 0: it
    is not known. Where a pool drains, a short job may pass a long one, so they do not wait in one
    line. There are four such lines where there could be one for each doubling."""

    @classmethod
    def of(cls, job: Job, *, by_user: bool = False) -> Line:
        apart = by_user or job.line_by_user
        return cls(  # Positional arguments are faster.
            job.workload,
            rank(job)[1],
            job.project,
            job.group,
            job.demand,
            job.pools,
            job.parts,
            job.preemptible,
            job.person if apart or job.project or job.gpus else "",
            (job.admitted_class or job.priority_class) if apart else "",
            short_role(job.role),
            job.line_by_user,
            job.refused_in,
            job.gpus,
            job.tenant,
            job.longest_attempt
            if job.gpus or not (job.preemptible is True and job.checkpoints)
            else 0,
            job.warm_key,
            _at_least(job) if job.runtime_bound and not job.gpus else 0,
        )

    @property
    def rank(self) -> Rank:
        """The rank of each job of the line, as by `order.rank`."""
        return rank_of(self.workload, self.priority)

    @property
    def key(self) -> str:
        """The line as a string for the store; `parse` reads it back."""
        parts = [
            _FORM,
            self.workload,
            self.priority,
            self.project,
            self.group,
            dict(self.demand),
            self.pools,
            [(pool, dict(amounts)) for pool, amounts in self.parts],
            self.preemptible,
        ]
        refused = [self.pools.index(pool) for pool in self.refused_in if pool in self.pools]
        last = [self.user, self.limited_as, self.role, self.by_user, refused]
        last += [gpus_number(self.gpus), self.tenant, self.longest_attempt, self.warm_key]
        last.append(self.at_least)
        while last and not last[-1]:
            last.pop()
        if last:
            parts += [*last, ""] if len(last) == 1 else last
        return json.dumps(parts, separators=(",", ":"))

    @classmethod
    def parse(cls, key: str) -> Line:
        """Return the line of that name. Raises ValueError, among others, for any other name."""
        form, *parts = json.loads(key)
        if form != _FORM:
            raise ValueError(f"{form!r} is not the form of this version's lines")
        workload, priority, project, group, demand, pools, held, preemptible, *optional = parts
        absent: tuple[Any, ...] = ("", "", "", False, (), 0, "", 0, "", 0)
        found = [*optional, *absent[len(optional) :]][: len(absent)]
        user, limited_as, role, apart, refused, gpus, tenant, longest, *last = found
        on_nodes = read_gpus(gpus), tenant, longest, *last
        in_parts = tuple((pool, Demand(amounts)) for pool, amounts in held)
        kind = Workload(workload), priority, project, group, Demand(demand), tuple(pools), in_parts
        refused_in = tuple(pools[n] for n in refused)
        return cls(*kind, preemptible, user, limited_as, role, bool(apart), refused_in, *on_nodes)


def _at_least(job: Job) -> int:
    """What is left of the job's maximum runtime (ms), rounded down to three binary digits."""
    rest = job.runtime_left or 0
    digits = max(0, rest.bit_length() - 3)
    return rest >> digits << digits


@lru_cache(maxsize=1024)
def short_role(arn: str) -> str:
    """A short hash of a role; empty for none. DynamoDB limits a line's key to 1,024 bytes."""
    return hashlib.sha256(arn.encode()).hexdigest()[:12] if arn else ""


def by_user(snapshot: Snapshot) -> bool:
    """Whether every line has one user: with user limits, past use of users, time slices or
    consolidation. The last two never interrupt a user's job for one of the same user and rank."""
    ranked = snapshot.fair_share is not None and snapshot.fair_share.of_users
    return users_matter(snapshot.pools, apart=bool(snapshot.users) or ranked)


def users_matter(pools: Iterable[Pool], *, apart: bool) -> bool:
    """As `by_user`, for a configuration. `apart`: whether users have limits, or their past use
    counts."""
    return apart or any(pool.time_slice is not None or pool.consolidate for pool in pools)


def line_of(job: Job, *, by_user: bool = False) -> str:
    return Line.of(job, by_user=by_user).key


@dataclass(slots=True, eq=False)
class WaitingLine:
    """One line as far as a plan knows it."""

    jobs: list[Job]
    """The jobs read so far, in the policy's order, or one stand-in (`Snapshot.unread`). Empty only
    if the line of a stand-in turns out to have no jobs."""
    behind: int = 0
    """How many more wait behind these."""

    def __len__(self) -> int:
        return len(self.jobs) + self.behind


def in_lines(
    waiting: Sequence[Job],
    behind: Mapping[str, int] | None = None,
    *,
    by_user: bool = False,
    unread: AbstractSet[str] = frozenset(),
) -> list[WaitingLine]:
    """Group jobs into lines, each in the policy's order. A claimant and a stand-in are each a line
    of their own. `behind` and `unread`: as in a `Snapshot`."""
    lines: dict[Line, list[Job]] = defaultdict(list)
    alone = []
    for job in waiting:
        if job.claim is None and job.name not in unread:
            lines[Line.of(job, by_user=by_user)].append(job)
        else:
            alone.append([job])
    for line in (members for members in lines.values() if len(members) > 1):
        line.sort(key=attrgetter("entry_time", "name"))  # Like `position`: a line has one rank.
    known = behind or {}
    return [WaitingLine(jobs, known.get(jobs[-1].name, 0)) for jobs in (*lines.values(), *alone)]


def first_read(
    line: Line, pools: Iterable[Pool], groups: Mapping[str, Group], *, shares: bool = False
) -> int | None:
    """How many jobs of a line a plan needs to begin: one for most lines; all (None) of a gang; of a
    job over several pools as many as empty pools could hold. With `shares`, the first members of a
    sweep say how much its project asks for."""
    group = groups.get(line.group)
    if group is not None and group.max_parallel is None:
        return None
    if line.parts:
        size = {pool.name: pool.capacity for pool in pools}
        return 1 + max(_times(demand, size.get(name, Demand())) for name, demand in line.parts)
    if shares and group is not None and group.max_parallel is not None:
        return group.max_parallel
    return 1


def _times(demand: Demand, room: Demand) -> int:
    """How many such demands fit into the room."""
    return max(0, min((room[name] // amount for name, amount in demand.items()), default=0))
