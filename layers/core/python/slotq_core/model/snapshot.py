"""The frozen input of a decision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from slotq_core.model.groups import Group
from slotq_core.model.jobs import Job
from slotq_core.model.nodes import Node
from slotq_core.model.pools import Pool, WarmSlot
from slotq_core.model.projects import (
    NO_PAST_USE,
    NOTHING_SPENT,
    Department,
    PastUse,
    Project,
    Spending,
)
from slotq_core.model.sharing import FairShare, SchedulerSettings
from slotq_core.model.users import PriorityClass, User, UserGroup, Yielded
from slotq_core.timestamps import Moment

NO_JOB_KNOWN = -1
"""In `Snapshot.behind`: as far as is known, the line of that stand-in has no job at all."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """The frozen input of a decision.

    `waiting` may hold every waiting job or only the first jobs of each line, with `behind` for the
    rest. The plan is the same: it asks for more of a line when it needs them.
    """

    pools: tuple[Pool, ...]
    active: tuple[Job, ...] = ()
    """Every job that holds slots, or GPUs of a node: starting, running, stopping."""
    nodes: tuple[Node, ...] = ()
    """Every node that holds a slot, from the first state to the last."""
    warm: tuple[WarmSlot, ...] = ()
    """The instances that SageMaker keeps for matching jobs, with those that are being released."""
    waiting: tuple[Job, ...] = ()
    """Jobs that wait for slots, and every job with a claim, in any order."""
    behind: Mapping[str, int] = field(default_factory=dict)
    """How many jobs wait in a line behind those in `waiting`, by name of the last of these. Of a
    line without an entry, `waiting` has all jobs. `NO_JOB_KNOWN` of a name in `unread`."""
    unread: frozenset[str] = frozenset()
    """Names of stand-ins in `waiting`. A stand-in represents the first job of an unread line: its
    place is a lower bound, and its other fields are those that the jobs of the line share, without
    the role. The plan asks for the line's jobs before it decides anything about them. Its `wake_at`
    may miss the moment when a pool drains for them."""
    due: tuple[Job, ...] = ()
    """Jobs in back-off whose time may have come."""
    projects: tuple[Project, ...] = ()
    """The oldest first. Empty: all jobs belong to the one implicit project, which has no quota."""
    departments: tuple[Department, ...] = ()
    spent: Spending = NOTHING_SPENT
    """The spending of projects with a budget, without the slots that the `active` jobs hold."""
    classes: tuple[PriorityClass, ...] = ()
    """Empty: HFAI's classes."""
    groups: tuple[Group, ...] = ()
    users: tuple[User, ...] = ()
    """Users with limits. A user who is not listed has none."""
    user_groups: tuple[UserGroup, ...] = ()
    yields: tuple[Yielded, ...] = ()
    """The latest for each project, user and rank."""
    scheduler: SchedulerSettings | None = None
    fair_share: FairShare | None = None
    """None: past use does not count."""
    past_use: PastUse = NO_PAST_USE


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueSnapshot:
    """The whole queue at one moment: the input of the next pass, and the jobs that enter later. For
    simulations (`GET /scenario`)."""

    at: Moment
    """The moment (ms)."""
    pools: tuple[Pool, ...]
    """The pools with their health and with counted contents."""
    jobs: tuple[Job, ...]
    """Every job that has not ended: first those that hold slots, then those that wait, in their
    order. Jobs that wait for others and held ones, too."""
    groups: tuple[Group, ...] = ()
    """The groups of these jobs."""
    nodes: tuple[Node, ...] = ()
    """Every node that holds a slot."""
    warm: tuple[WarmSlot, ...] = ()
    """The warm slots that count apart from jobs, the first to go first."""
    yields: tuple[Yielded, ...] = ()
    spent: Spending = NOTHING_SPENT
    past_use: PastUse = NO_PAST_USE
    etas: Mapping[str, int] = field(default_factory=dict)
    """By job, the remaining time (ms) that a running job reports."""
    limits: Mapping[str, int] = field(default_factory=dict)
    """By job, the longest time (ms) that an attempt may run, if known."""
    withheld: frozenset[str] = frozenset()
    """The jobs shown under a stand-in name."""
    left_out: int = 0
    """A lower bound on the jobs that wait behind those in `jobs` and did not fit into the
    answer."""
