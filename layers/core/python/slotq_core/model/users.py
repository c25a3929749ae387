"""Time sharing between users: classes of priority, what each user may hold, and who has yielded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from slotq_core.model.jobs import Workload


@dataclass(frozen=True, kw_only=True, slots=True)
class PriorityClass:
    """A named priority. It may end after some running time: then its jobs are of another class."""

    name: str
    value: int
    """The priority of its jobs."""
    demote_to: str = ""
    """The class that its jobs come into after `demote_after`; empty: never."""
    demote_after: int = 0
    """How much running time, over all attempts, a job has in this class (ms)."""


AUTO = "AUTO"
"""The class of a job that takes the highest class in which its user has room."""
AUTO_VALUE = -1
"""What a waiting AUTO job shows as its priority (HFAI's). It waits below every class all the same:
`policy.order`."""

UserLimits = Mapping[str, Mapping[str, int]]
"""Slots that a user may hold, by pool and by class. A pool that is not there has no limit; a class
that is missing in a pool that is there has no slots."""


@dataclass(frozen=True, kw_only=True, slots=True)
class UserGroup:
    """Users with limits in common: each of its members may hold that much."""

    name: str
    limits: UserLimits = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class User:
    """Who submits jobs, and how many slots they may hold."""

    name: str
    """As in `Job.submitter`."""
    limits: UserLimits = field(default_factory=dict)
    """Personal limits: each beats those of the groups for that pool and class."""
    groups: tuple[str, ...] = ()
    """The user groups that it is in: the largest of their limits counts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Yielded:
    """When a user's job last yielded to a time slice: all that this user's waiting jobs of that
    rank count as having entered just after it."""

    user: str
    workload: Workload
    priority: int
    at: int
