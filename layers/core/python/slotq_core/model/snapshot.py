"""What a decision is made from."""

from __future__ import annotations

from dataclasses import dataclass

from slotq_core.model.groups import Group
from slotq_core.model.jobs import Job
from slotq_core.model.pools import Pool
from slotq_core.model.projects import Department, Project
from slotq_core.model.users import PriorityClass, User, UserGroup, Yielded


@dataclass(frozen=True, kw_only=True, slots=True)
class SchedulerSettings:
    """How often it is tried to start a job, and how long apart: NVIDIA FLARE's scheduler.

    Without any, a job is tried whenever something changes, and never given up.
    """

    max_jobs: int | None = None
    """How many jobs may hold slots at once, a gang counted as one; None: as many as fit."""
    max_schedule_count: int = 10
    """After so many attempts in vain the job is given up."""
    min_schedule_interval: int = 10_000
    """From the first attempt to the second (ms, above 0); each further interval is twice the one
    before."""
    max_schedule_interval: int = 600_000
    """No interval is longer (ms)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """The frozen input of a decision.

    `waiting` may be everything that waits or only the heads of each line: the plan is the same
    (`policy.lines` says how many heads that takes).
    """

    pools: tuple[Pool, ...]
    active: tuple[Job, ...] = ()
    """Every job that holds slots: starting, running, stopping."""
    waiting: tuple[Job, ...] = ()
    """Jobs that wait for slots, and every claimant, in any order."""
    due: tuple[Job, ...] = ()
    """Jobs in back-off whose time may have come."""
    projects: tuple[Project, ...] = ()
    """The oldest first. None: all jobs are of the one implicit project, which knows no quota."""
    departments: tuple[Department, ...] = ()
    classes: tuple[PriorityClass, ...] = ()
    """None: HFAI's."""
    groups: tuple[Group, ...] = ()
    users: tuple[User, ...] = ()
    """Users with limits. Who is not among them has none."""
    user_groups: tuple[UserGroup, ...] = ()
    yields: tuple[Yielded, ...] = ()
    """The last for each user and rank."""
    scheduler: SchedulerSettings | None = None
