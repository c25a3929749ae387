"""A quota, a limit, a budget, a concurrency setting or a rule of the project keeps the job back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from slotq_core.model.projects import Beyond, hours
from slotq_core.model.reasons.reason import Reason, in_jobs, in_slots, units
from slotq_core.timestamps import iso


@dataclass(frozen=True, kw_only=True, slots=True)
class HoldingLimit(Reason):
    """The job's project or department may hold no more."""

    code: ClassVar[str] = "limit_reached"
    owner: str
    needed: int | float
    used: int | float
    limit: int | float
    resource: str = "slots"
    """The resource that the numbers count."""

    def sentence(self) -> str:
        return (
            f"needs {units(self.needed, self.resource)}; {self.owner} holds {self.used} of its "
            f"limit {self.limit}"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class UserLimitReached(Reason):
    """The user may hold no more slots of the class in the pool."""

    code: ClassVar[str] = "user_limit_reached"
    pool: str
    needed: int
    user: str
    priority_class: str
    """The class; for an AUTO job, the class in which the user has the most slots left."""
    used: int
    limit: int

    def sentence(self) -> str:
        return (
            f"needs {in_slots(self.needed)}; user {self.user} holds {self.used} of its limit "
            f"{self.limit} for {self.priority_class} in pool {self.pool}"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class ClassForbidden(Reason):
    """The user may no longer hold slots of the class in the pool."""

    code: ClassVar[str] = "class_not_allowed"
    pool: str
    user: str
    priority_class: str
    """The class; empty: the priority is a number that no class has."""

    def sentence(self) -> str:
        class_name = self.priority_class or "a number that is no class's value"
        return f"user {self.user} may hold no slots for {class_name} in pool {self.pool}"


@dataclass(frozen=True, kw_only=True, slots=True)
class QuotaExceeded(Reason):
    """Jobs that cannot be evicted must stay within the quota."""

    code: ClassVar[str] = "quota_for_non_preemptible"
    owner: str
    needed: int | float
    used: int | float
    quota: int | float
    resource: str = "slots"
    """The resource that the numbers count."""

    def sentence(self) -> str:
        return (
            f"needs {units(self.needed, self.resource)} without eviction, which {self.owner} "
            f"may hold only within its quota: {self.used} of {self.quota} used"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class BudgetSpent(Reason):
    """The project has spent its budget of this month."""

    code: ClassVar[str] = "budget_spent"
    project: str
    spent: int
    """Slots multiplied by seconds."""
    budget: int
    """Slots multiplied by seconds."""
    until: int
    """When the budget is reset (ms)."""
    beyond: str
    """`soft` or `hard`."""

    def sentence(self) -> str:
        spent = f"{hours(self.spent * 1000)} of the {hours(self.budget * 1000)} slot-hours"
        soft = self.beyond == Beyond.SOFT
        rule = "it only uses what is idle" if soft else "none of its jobs starts"
        return (
            f"project {self.project} has spent {spent} of its budget this month; {rule} until "
            f"{iso(self.until)}"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class JobLimitReached(Reason):
    """As many jobs hold slots as the scheduler's `max_jobs` allows. No other job is tried."""

    code: ClassVar[str] = "job_limit_reached"
    active: int
    limit: int

    def sentence(self) -> str:
        return (
            f"at most {in_jobs(self.limit)} may hold slots at once; {self.active} hold or are "
            "owed them"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class SweepLimit(Reason):
    """As many of the sweep's jobs hold slots as may do so at once."""

    code: ClassVar[str] = "sweep_limit"
    group: str
    active: int
    limit: int

    def sentence(self) -> str:
        return (
            f"at most {in_jobs(self.limit)} of sweep {self.group} may hold slots at once; "
            f"{self.active} hold or are owed them"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class WaitsForApproval(Reason):
    """The job is held until an admin of its project releases it."""

    code: ClassVar[str] = "waits_for_approval"
    project: str

    def sentence(self) -> str:
        return f"waits until an admin of project {self.project} releases it"


@dataclass(frozen=True, kw_only=True, slots=True)
class StartForbidden(Reason):
    """The rules of the project have changed since the submission, and forbid the start."""

    code: ClassVar[str] = "start_forbidden"
    project: str
    rules: str
    """The broken rules, each with its field."""

    def sentence(self) -> str:
        return (
            f"is held, because the rules of project {self.project} forbid its start: {self.rules}. "
            "Release it when the rules allow it again, or submit it again"
        )
