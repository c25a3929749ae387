"""Queues of any size to plan. The same size gives the same queue on every machine.

`variants` changes them: user limits, free slots, gangs.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from slotq_core.model.attempts import Attempt
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.pools import Pool
from slotq_core.model.projects import EVERYWHERE, Department, Project
from slotq_core.model.snapshot import Snapshot

NOW = 1_000_000_000
"""The moment of the plan (ms)."""

POOLS = 20
PRIORITIES = range(6)
KINDS = 80
"""The number of kinds of job, by priority, slots and pools. Each project that submits a kind has a
separate line for it."""
USERS = 2_000
"""The number of users, all projects together. Each user belongs to one project."""

_SLOTS = (1, 1, 1, 2, 2, 4, 8)
_DAY = 86_400_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """How large a queue is. Its text seeds the random numbers."""

    waiting: int
    active: int = 2_000
    projects: int = 50
    """The number of projects. 0: no projects."""
    departments: int = 0
    kinds: int = KINDS
    """The number of kinds of job that each project submits."""
    users_of_a_kind: int = field(default=1, repr=False)
    """How many users of a project submit jobs of the same kind. Without effect on the seed, so
    that everything else stays the same."""

    def user(self, project: str, number: int) -> str:
        """One of the project's users."""
        users = USERS // max(1, self.projects)
        return f"user-{number % users:04d}@{project}"


def world(size: Size) -> Snapshot:
    """A busy queue. Active jobs fill the pools except for a few slots."""
    rng = random.Random(f"{size}")
    pools = [f"pool-{i:02d}" for i in range(POOLS)]
    projects = [f"project-{i:04d}" for i in range(size.projects)] or [""]
    active = []
    for i in range(size.active):
        project, pool = rng.choice(projects), rng.choice(pools)
        active.append(_active(rng, i, project, size.user(project, i), pool))
    catalogue = [_kind(rng, pools) for _ in range(KINDS)]
    kinds = {name: rng.sample(catalogue, size.kinds) for name in projects}
    kind_numbers = {kind: number for number, kind in enumerate(catalogue)}
    waiting = []
    for i in range(size.waiting):
        project = rng.choice(projects)
        kind = rng.choice(kinds[project])
        number = kind_numbers[kind] * size.users_of_a_kind + i % size.users_of_a_kind
        user = size.user(project, number)
        waiting.append(_waiting(rng, f"job-{i:06d}", project, user, kind))
    used = dict.fromkeys(pools, 0)
    for job in active:
        assert job.attempt is not None
        used[job.attempt.pool] += job.demand.slots
    capacity = sum(used.values())
    return Snapshot(
        pools=tuple(_pool(name, used[name] + rng.randrange(8)) for name in pools),
        active=tuple(active),
        waiting=tuple(waiting),
        projects=tuple(_project(rng, i, size, capacity) for i in range(size.projects)),
        departments=tuple(Department(name=_department(i)) for i in range(size.departments)),
    )


Kind = tuple[int, int, tuple[str, ...], bool]
"""Priority, slots, pools, and whether the job is preemptible."""


def _kind(rng: random.Random, pools: Sequence[str]) -> Kind:
    accepted = tuple(rng.sample(pools, rng.randint(1, 3)))
    return rng.choice(PRIORITIES), rng.choice(_SLOTS), accepted, rng.random() < 0.9


def _waiting(rng: random.Random, name: str, project: str, user: str, kind: Kind) -> Job:
    priority, slots, pools, preemptible = kind
    return Job(
        name=name,
        state=JobState.PENDING,
        priority=priority,
        entry_time=NOW - rng.randrange(_DAY),
        demand=Demand(slots=slots),
        pools=pools,
        preemptible=preemptible,
        project=project,
        submitter=user,
        person=user,
    )


def _active(rng: random.Random, i: int, project: str, user: str, pool: str) -> Job:
    name, since = f"run-{i:05d}", NOW - rng.randrange(_DAY)
    return Job(
        name=name,
        state=JobState.STOPPING if rng.random() < 0.02 else JobState.RUNNING,
        priority=rng.choice(PRIORITIES),
        entry_time=since,
        demand=Demand(slots=rng.choice(_SLOTS)),
        pools=(pool,),
        preemptible=rng.random() < 0.9,
        project=project,
        submitter=user,
        person=user,
        attempts=1,
        attempt=Attempt(
            number=1,
            training_job=name,
            token="",
            pool=pool,
            instance_type="ml.p5.48xlarge",
            admitted_at=since,
            created=True,
            running_since=since,
        ),
    )


def _pool(name: str, capacity: int) -> Pool:
    return Pool(name=name, instance_type="ml.p5.48xlarge", capacity=Demand(slots=capacity))


def _project(rng: random.Random, i: int, size: Size, capacity: int) -> Project:
    """A project. All quotas together are about the capacity."""
    quota = rng.randrange(2 * capacity // size.projects + 1)
    return Project(
        name=f"project-{i:04d}",
        department=_department(i % size.departments) if size.departments else "",
        quota={EVERYWHERE: Demand(slots=quota)},
        weight=rng.choice((None, None, 1, 3)),
        priority=rng.choice((0, 0, 0, 1)),
    )


def _department(i: int) -> str:
    return f"department-{i:02d}"
