"""Changes to the queues of `worlds`: user limits, free slots, gangs."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle

from benchmarks.worlds import PRIORITIES
from slotq_core.model.groups import Group
from slotq_core.model.jobs import Job
from slotq_core.model.projects import Beyond, Budget
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
