"""Changes to the queues of `worlds`: user limits, free slots, gangs; and a queue of jobs on
nodes."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle

from benchmarks.worlds import NOW, PRIORITIES
from slotq_core.gpu_amounts import WHOLE
from slotq_core.model.attempts import Attempt
from slotq_core.model.demand import Demand
from slotq_core.model.groups import Group
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.nodes import Node, NodeState
from slotq_core.model.pools import NodeRules, Pool
from slotq_core.model.projects import EVERYWHERE, Beyond, Budget, Project
from slotq_core.model.snapshot import Snapshot
from slotq_core.model.users import PriorityClass, User

_HOUR = 3_600_000
_GANG_SIZES = (2, 3, 4)
_GANGS_OF_MIXED = 100
_SLOTS_OF_A_USER = (0, 1, 2, 4, 8)
"""What a user may hold of one class in one pool. Jobs have up to 8 slots, so many of them wait for
their user's limit, as after an administrator has lowered it."""


def with_user_limits(snapshot: Snapshot) -> Snapshot:
    """Make each priority a class and limit every user in every class and pool."""
    rng = random.Random("user limits")
    classes = tuple(PriorityClass(name=f"CLASS-{value}", value=value) for value in PRIORITIES)
    names = sorted({job.person for job in (*snapshot.active, *snapshot.waiting)})
    users = tuple(_limited_user(rng, name, snapshot, classes) for name in names)
    return replace(snapshot, classes=classes, users=users)


def mixed(snapshot: Snapshot) -> Snapshot:
    """Give the queue every kind of rule: users with limits in classes, gangs, time slices, drains,
    and budgets of which some are spent."""
    rng = random.Random("mixed")
    limited = with_gangs(with_user_limits(snapshot), _GANGS_OF_MIXED)
    pools = (
        replace(pool, reserve_after=_HOUR, time_slice=_HOUR if number % 2 else None)
        for number, pool in enumerate(limited.pools)
    )
    projects = (
        replace(project, budget=Budget(slot_ms=_HOUR * rng.randrange(1, 3_000), beyond=beyond))
        for project, beyond in zip(limited.projects, cycle(Beyond), strict=False)
    )
    return replace(limited, pools=tuple(pools), projects=tuple(projects))


def with_free_slots(snapshot: Snapshot, share: float) -> Snapshot:
    """End active jobs at random until that share of all slots is free (0 … 1)."""
    rng = random.Random("free slots")
    remaining = rng.sample(snapshot.active, len(snapshot.active))
    capacity = sum(pool.capacity.slots for pool in snapshot.pools)
    used = sum(job.demand.slots for job in remaining)
    while used > (1 - share) * capacity:
        used -= remaining.pop().demand.slots
    return replace(snapshot, active=tuple(remaining))


def with_gangs(snapshot: Snapshot, number: int) -> Snapshot:
    """Make so many gangs of two to four of the waiting jobs. The other jobs stay alone."""
    rng = random.Random("gangs")
    jobs = rng.sample(snapshot.waiting, len(snapshot.waiting))
    groups, members = [], []
    for i in range(number):
        gang = [jobs.pop() for _ in range(rng.choice(_GANG_SIZES))]
        name = f"gang-{i:05d}"
        members += _alike(gang, name)
        groups.append(Group(name=name, members=tuple(job.name for job in gang)))
    return replace(snapshot, waiting=(*jobs, *members), groups=tuple(groups))


def _limited_user(
    rng: random.Random, name: str, snapshot: Snapshot, classes: Sequence[PriorityClass]
) -> User:
    limits = {
        pool.name: {one.name: rng.choice(_SLOTS_OF_A_USER) for one in classes}
        for pool in snapshot.pools
    }
    return User(name=name, limits=limits)


def _alike(gang: Sequence[Job], name: str) -> list[Job]:
    """The members of a gang, each like the first apart from its name and entry time."""
    return [replace(gang[0], name=job.name, entry_time=job.entry_time, group=name) for job in gang]


NODES = 250
GPUS = 8


def on_nodes(waiting: int, *, per_gpu: int = 1, whole: bool = False) -> Snapshot:
    """A queue of jobs of one GPU, or of so many that share one, in 250 full nodes of 8. `whole`:
    the same jobs take whole instances, of a pool with as many slots. Most running jobs have the
    highest priority, so that a plan evicts a twentieth at most."""
    rng = random.Random(f"{waiting} jobs of one GPU")
    names = [f"project-{i:02d}" for i in range(50)]
    on_one = GPUS * per_gpu
    slots = NODES * on_one if whole else NODES
    gpus = 0 if whole else WHOLE // per_gpu
    rules = None if whole else NodeRules(gpus=GPUS)
    share = {EVERYWHERE: Demand(slots=slots // len(names))}
    active = [
        _on_a_node(rng, f"run-{i:04d}", names[i // on_one % len(names)], gpus)
        for i in range(NODES * on_one)
    ]
    return Snapshot(
        pools=(Pool(name="p5", instance_type="t", capacity=Demand(slots=slots), nodes=rules),),
        projects=tuple(Project(name=name, quota=share) for name in names),
        nodes=() if whole else tuple(_node(i, names[i % len(names)]) for i in range(NODES)),
        active=tuple(_running(rng, i, job, per_gpu) for i, job in enumerate(active)),
        waiting=tuple(
            _on_a_node(rng, f"job-{i:06d}", rng.choice(names), gpus) for i in range(waiting)
        ),
    )


def _on_a_node(rng: random.Random, name: str, project: str, gpus: int) -> Job:
    """`gpus`: hundredths; 0: a whole instance."""
    return Job(
        name=name,
        state=JobState.PENDING,
        priority=rng.randrange(6),
        entry_time=NOW - rng.randrange(86_400_000),
        demand=Demand(slots=1),
        pools=("p5",),
        project=project,
        person=f"user-{rng.randrange(4)}@{project}",
        gpus=gpus,
        tenant=project if gpus else "",
    )


def _running(rng: random.Random, i: int, job: Job, per_gpu: int) -> Job:
    since = NOW - rng.randrange(86_400_000)
    attempt = Attempt(
        number=1,
        training_job=job.name,
        token="",
        pool="p5",
        instance_type="t",
        admitted_at=since,
        created=True,
        running_since=since,
        node=f"node-{i // (GPUS * per_gpu):03d}" if job.gpus else "",
        node_generation=1 if job.gpus else 0,
        gpu_ids=(i // per_gpu % GPUS,) if job.gpus else (),
        gpu_part=job.gpus % WHOLE,
    )
    priority = job.priority if i % 20 == 0 else PRIORITIES[-1]
    return replace(job, state=JobState.RUNNING, priority=priority, attempts=1, attempt=attempt)


def _node(i: int, project: str) -> Node:
    return Node(
        name=f"node-{i:03d}",
        pool="p5",
        generation=1,
        state=NodeState.READY,
        tenant=project,
        project=project,
        contents=Demand(gpus=GPUS),
        training_job=f"node-{i:03d}",
        token="",
        started_at=NOW - 172_800_000,
        created=True,
        running_since=NOW - 172_000_000,
    )
