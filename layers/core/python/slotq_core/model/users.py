"""Time sharing between users: priority classes, user limits, and who has yielded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from slotq_core.model.jobs import Workload


@dataclass(frozen=True, kw_only=True, slots=True)
class PriorityClass:
    """A named priority. After `demote_after`, its jobs move to the class `demote_to`."""

    name: str
    value: int
    """The priority of its jobs."""
    demote_to: str = ""
    """The class that jobs move to after `demote_after`; empty: they stay in this class."""
    demote_after: int = 0
    """Running time over all attempts before a job is demoted (ms)."""


AUTO = "AUTO"
"""The class of jobs that start in the highest class in which the user has room."""
AUTO_VALUE = -1
"""The priority that a waiting AUTO job shows, as in HFAI. AUTO jobs still wait below every class:
see `policy.order`."""

UserLimits = Mapping[str, Mapping[str, int]]
"""Slots that a user may hold, by pool and by class. A pool that is not listed has no limit. In a
listed pool, a class that is not listed may hold no slots."""


@dataclass(frozen=True, kw_only=True, slots=True)
class UserGroup:
    """Users with the same limits. Each member may hold that many slots."""

    name: str
    limits: UserLimits = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class User:
    """A user who submits jobs, with the slots that the user may hold."""

    name: str
    """The same text as `Job.person`."""
    limits: UserLimits = field(default_factory=dict)
    """Personal limits. Each replaces the groups' limits for that pool and class."""
    groups: tuple[str, ...] = ()
    """The user's groups. The largest of their limits counts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Yielded:
    """When a user's job last yielded to a time slice. All of the user's waiting jobs of that rank
    count as having entered just after that moment."""

    user: str
    workload: Workload
    priority: int
    at: int

    @property
    def of(self) -> tuple[str, str, int]:
        """The user and the rank."""
        return (self.user, self.workload, self.priority)
