"""There may be room, but only so much may be held: by a project, a user, a sweep, the scheduler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from slotq_core.model.reasons.base import Reason, in_jobs, in_slots, units


@dataclass(frozen=True, kw_only=True, slots=True)
class LimitReached(Reason):
    """Its project, or its department, may not hold more."""

    code: ClassVar[str] = "limit_reached"
    owner: str
    needed: int
    used: int
    limit: int
    resource: str = "slots"
    """What the numbers count."""

    def sentence(self) -> str:
        return (
            f"needs {units(self.needed, self.resource)}; {self.owner} holds {self.used} of its "
            f"limit {self.limit}"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class UserLimitReached(Reason):
    """Its user may not hold more slots of that class there."""

    code: ClassVar[str] = "user_limit_reached"
    pool: str
    needed: int
    user: str
    priority_class: str
    """Of an AUTO job: the class in which its user has the most left."""
    used: int
    limit: int

    def sentence(self) -> str:
        return (
            f"needs {in_slots(self.needed)}; user {self.user} holds {self.used} of its limit "
            f"{self.limit} for {self.priority_class} in pool {self.pool}"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class ClassNotAllowed(Reason):
    """Its user may hold no slots of its class there any more."""

    code: ClassVar[str] = "class_not_allowed"
    pool: str
    user: str
    priority_class: str
    """Empty: its priority is a number that is no class's value."""

    def sentence(self) -> str:
        its = self.priority_class or "a number that is no class's value"
        return f"user {self.user} may hold no slots for {its} in pool {self.pool}"


@dataclass(frozen=True, kw_only=True, slots=True)
class QuotaExceeded(Reason):
    """What cannot be evicted has to stay within the quota."""

    code: ClassVar[str] = "quota_for_non_preemptible"
    owner: str
    needed: int
    used: int
    quota: int
    resource: str = "slots"
    """What the numbers count."""

    def sentence(self) -> str:
        return (
            f"needs {units(self.needed, self.resource)} that cannot be evicted, which "
            f"{self.owner} has within its quota only: {self.used} of {self.quota} used"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class JobLimitReached(Reason):
    """The scheduler's `max_jobs` hold slots already: nothing more is tried."""

    code: ClassVar[str] = "job_limit_reached"
    active: int
    limit: int

    def sentence(self) -> str:
        return (
            f"at most {in_jobs(self.limit)} may hold slots at once; {self.active} hold them or are "
            "owed them"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class SweepLimit(Reason):
    """As many jobs of its sweep as may hold slots already."""

    code: ClassVar[str] = "sweep_limit"
    group: str
    active: int
    limit: int

    def sentence(self) -> str:
        return (
            f"at most {in_jobs(self.limit)} of sweep {self.group} may hold slots at once; "
            f"{self.active} hold them or are owed them"
        )
