"""Time sharing between users: priority classes, user limits, and who has yielded.

Named priority classes with values (none configured: HFAI's). An integer is the class of that
value. AUTO has a name and no value, so no number means AUTO.

See docs/policy-decisions.md#classes-and-users.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from slotq_core.model.jobs import Workload
from slotq_core.timestamps import Duration, Moment


@dataclass(frozen=True, kw_only=True, slots=True)
class PriorityClass:
    """A named priority. After `demote_after`, its jobs move to the class `demote_to`."""

    name: str
    value: int
    """The priority of its jobs."""
    demote_to: str = ""
    """The class that jobs move to after `demote_after`; empty: they stay in this class."""
    demote_after: Duration = 0
    """Running time over all attempts before a job is demoted."""
    chosen_by: tuple[str, ...] = ()
    """The users and user groups that may choose the class; a job of any other user that names the
    class is AUTO. Empty: everybody may choose it."""


AUTO = "AUTO"
"""The class of jobs that start in the highest class in which the user has room."""
AUTO_VALUE = -1
"""The priority that a waiting AUTO job shows, as in HFAI. AUTO jobs still wait below every class:
see `policy.order`."""

_HFAI = {
    "EXTREME_HIGH": 50,
    "VERY_HIGH": 40,
    "HIGH": 30,
    "ABOVE_NORMAL": 20,
    "NORMAL": 10,
    "UNDER_NORMAL": 8,
    "BELOW_NORMAL": 5,
    "LOW": 0,
}

_HFAIS = {
    name: PriorityClass(name=name, value=value, demote_to="NORMAL", demote_after=1_800_000)
    if name == "ABOVE_NORMAL"
    else PriorityClass(name=name, value=value)
    for name, value in _HFAI.items()
}
"""After 30 minutes of running time a job at ABOVE_NORMAL counts as NORMAL."""

Classes = Mapping[str, PriorityClass]
"""By name, the highest value first; among equal values, the first configured. Without AUTO."""


def classes_of(configured: Iterable[PriorityClass]) -> Classes:
    """The configured classes; if there are none, HFAI's."""
    ordered = sorted(configured, key=lambda priority_class: -priority_class.value)
    return (
        {
            priority_class.name: priority_class
            for priority_class in ordered
            if priority_class.name != AUTO
        }
        if ordered
        else _HFAIS
    )


def names_by_value(classes: Classes) -> Mapping[int, str]:
    """The class of each value; among equal values, the first."""
    return {
        priority_class.value: priority_class.name
        for priority_class in reversed(tuple(classes.values()))
    }


UserLimits = Mapping[str, Mapping[str, int]]
"""Slots that a user may hold, by pool and by class. A pool that is not listed has no limit. In a
listed pool, a class that is not listed may hold no slots."""


@dataclass(frozen=True, kw_only=True, slots=True)
class UserGroup:
    """Users with the same limits. Each member may hold that many slots."""

    name: str
    limits: UserLimits = field(default_factory=dict)
    members: tuple[str, ...] = ()
    """Patterns of principals' ARNs. The members are the principals that match a pattern, and each
    `User` who names the group."""


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
    """When a user's job last yielded to a time slice. All of the user's waiting jobs of that
    project and rank count as having entered just after that moment."""

    user: str
    workload: Workload
    priority: int
    at: Moment
    project: str | None = None
    """The project of the job; empty: the one implicit project. None: kept by version 0.2.0, which
    named none. Such a yield counts in every project until it is forgotten."""

    @property
    def of(self) -> tuple[str | None, str, str, int]:
        """The project, the user and the rank."""
        return (self.project, self.user, self.workload, self.priority)
