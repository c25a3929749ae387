"""Projects and departments: quota, weight, limit, budget, and what a project prescribes for
requests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from slotq_core.model.callers import NO_ACCESS, Access
from slotq_core.model.demand import Demand
from slotq_core.timestamps import Duration


@dataclass(frozen=True, kw_only=True, slots=True)
class Prescription:
    """A project's prescriptions for the requests of its jobs. Patterns are texts in which `*`
    matches any text; an empty list of patterns allows everything."""

    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Fields of CreateTrainingJob for requests that do not have them."""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Fields of CreateTrainingJob that every request of the project has; another value is
    refused."""
    roles: tuple[str, ...] = ()
    """Patterns of execution roles."""
    images: tuple[str, ...] = ()
    """Patterns of training images."""
    outputs: tuple[str, ...] = ()
    """Prefixes of S3 locations that jobs may write to."""
    pools: tuple[str, ...] = ()
    """The pools that jobs may run in; empty: all."""
    instance_types: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Patterns of instance types, by workload class. A class that is not named is not limited."""
    max_priority: int | None = None
    """The largest priority that a member may give; None: no limit."""
    waiting: int = 0
    """The most jobs that wait, back off or are held; 0: no limit."""
    submissions: int = 0
    """The most new jobs in a minute; 0: no limit."""
    approval: bool = False
    """Whether a submission is held until an admin releases it."""


APPROVAL = "approval"
"""The cause of a held job that waits for an admin's approval."""
FORBIDDEN = "forbidden_by_project"
"""The cause of a held job whose start its project forbids."""

NO_PRESCRIPTION = Prescription()


EVERYWHERE = ""
"""The scope of an amount over all pools together. Any other scope is a pool's name."""

Amounts = Mapping[str, Demand]
"""Amounts by scope: either one amount over all pools, or one for each pool."""

Limits = Mapping[str, Mapping[str, int]]
"""Limits by scope, then by resource. A resource that is not named has no limit; 0 is a limit."""


Weight = int | Mapping[str, int] | None
"""A part of the surplus: one weight for every resource, or one for each that is named. None, and a
resource that is not named: the quota."""


def weight_of(weight: Weight, resource: str) -> int | None:
    """The weight when this resource's surplus is divided; None: the quota."""
    return weight if weight is None or isinstance(weight, int) else weight.get(resource)


class Fairness(StrEnum):
    """The limits of reclaims between departments."""

    PROTECT_QUOTA = "protect_quota"
    """No reclaim of work within a project's own quota."""
    FULL = "full"
    """Also work within a quota, if the victim's department is above its fair share and the
    beneficiary's department is below its own."""


HOUR = 3_600_000
"""An hour in ms."""

WARNED_AT = 80
"""The part of a budget, in percent, at which the queue warns."""


class Beyond(StrEnum):
    """The treatment of a project beyond its budget, until the month ends."""

    SOFT = "soft"
    """All that the project holds counts as over quota: it uses idle slots, and gives them back."""
    HARD = "hard"
    """None of its jobs starts. Running jobs go on."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Budget:
    """The budget of a project for each calendar month."""

    slot_ms: int
    """Slots multiplied by ms, above 0. An attempt counts from its admission to its end."""
    beyond: Beyond = Beyond.SOFT


@dataclass(frozen=True, kw_only=True, slots=True)
class Department:
    """Projects with a common quota."""

    name: str
    quota: Amounts | None = None
    """The department's quota; None: the sum of its projects' quotas."""
    weight: Weight = None
    """The department's part of the surplus."""
    limit: Limits = field(default_factory=dict)
    """The most that the department may ever hold."""
    priority: int = 0
    over_quota: bool = True
    """False: the quota is also the limit."""
    fairness: Fairness = Fairness.PROTECT_QUOTA
    """The limits of this department's reclaims from others."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Project:
    """A quota entity: its jobs share the pools with other projects by quota and weight."""

    name: str
    department: str = ""
    """The department's name; empty: none."""
    quota: Amounts = field(default_factory=dict)
    weight: Weight = None
    """The project's part of its department's surplus, or of the pools'."""
    limit: Limits = field(default_factory=dict)
    priority: int = 0
    over_quota: bool = True
    min_runtime: Duration = 0
    """Protection of the project's attempts from eviction, from each start."""
    budget: Budget | None = None
    """The project's budget for a calendar month; None: no limit."""
    pools: tuple[str, ...] = ()
    """The pools of jobs that name none, in order of preference; empty: every pool with the job's
    instance type."""
    access: Access = NO_ACCESS
    """The project's people. The policy does not look at them."""
    requests: Prescription = NO_PRESCRIPTION
    """The project's prescriptions for requests. The policy does not look at them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ShareStatus:
    """One project or department in one scope and one resource. Where projects share nodes, amounts
    may be parts of units."""

    name: str
    is_department: bool
    scope: str
    """The pool where the quota counts; empty: all pools together."""
    resource: str
    quota: int | float
    share: int | float
    """The fair share: the owner's amount if every project takes all that it asks for."""
    limit: int | float | None
    held: int | float
    """Held now, by jobs that go on."""
    stopping: int | float
    """Held by jobs that are being stopped."""
    waiting: int | float
    """Asked for by waiting jobs, at most what the pools have."""
    past_use: float | None = None
    """Its percentage of past use in the scope; None: past use does not count."""
    due: float | None = None
    """The percentage that its weight deserves."""

    @property
    def over_quota(self) -> int | float:
        return max(0, round(self.held - self.quota, 4))


@dataclass(frozen=True, kw_only=True, slots=True)
class Spending:
    """The spending of projects with a budget in one month, by attempts that have ended."""

    month: int = 0
    """The first moment of the month (ms). For any other month, nothing is known or spent."""
    slot_ms: Mapping[str, int] = field(default_factory=dict)
    """By project. A project that is missing has spent nothing."""
    warned: frozenset[str] = frozenset()
    """The projects for which the queue has warned in this month."""


NOTHING_SPENT = Spending()


def counts_by_pool(owners: Iterable[Project | Department]) -> bool:
    """Whether quotas and limits count in each pool, not over all pools together."""
    return any(
        amounts and EVERYWHERE not in amounts
        for owner in owners
        for amounts in (owner.quota, owner.limit)
    )


class UseOf(StrEnum):
    """Between whom past use counts."""

    PROJECTS = "projects"
    """It changes the weights that divide the surplus."""
    USERS = "users"
    """Of one project's jobs of equal rank, those of the user who has used less go first."""
    BOTH = "both"


PARTS = 64
"""Parts of past use are counted in 64ths."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PastUse:
    """The parts of projects and users in past use, added up once an hour."""

    at: int = 0
    """The full hour (ms) up to which use counts; 0: it was never added up."""
    half_life: int = 0
    """The half-life (ms) that it was added up with."""
    by_pool: bool = False
    """Whether each pool has its own sum."""
    of: UseOf = UseOf.PROJECTS
    """What was added up."""
    parts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """By scope and project, 64ths of all use there; together 64. A scope without use is missing.
    Empty where only the use of users counts, as is the next."""
    slot_seconds: Mapping[str, int] = field(default_factory=dict)
    """All use by scope, in slots multiplied by seconds, with old use counted less."""
    users: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """By project and user, 64ths of the project's use in all pools; together 64. So at most 64
    users of a project are named. Empty: the use of users does not count."""
    user_slot_seconds: Mapping[str, int] = field(default_factory=dict)
    """As `slot_seconds`, by project, where the use of users counts."""


NO_PAST_USE = PastUse()


@dataclass(frozen=True, kw_only=True, slots=True)
class BudgetStatus:
    """The spending of a project against its budget at one moment, running attempts included."""

    project: str
    budget: Budget
    spent: int
    """Slots multiplied by ms."""
    held: int
    """The slots that its jobs hold now, at which it spends, in parts of which a slot has `per`."""
    resets_at: int
    """When (ms) the next month begins and resets the budget."""
    warned: bool = False
    """Whether the queue has warned in this month."""
    per: int = 1
    """More than 1 where jobs hold parts of slots, on nodes."""

    @property
    def is_spent(self) -> bool:
        return self.spent >= self.budget.slot_ms

    @property
    def is_near(self) -> bool:
        """Whether the spending has reached the amount at which the queue warns."""
        return self.spent >= self.near

    @property
    def near(self) -> int:
        """The amount (slots multiplied by ms) at which the queue warns."""
        return -(-self.budget.slot_ms * WARNED_AT // 100)

    def reaches(self, amount: int, now: int) -> int | None:
        """When (ms) the spending reaches the amount, if as many slots stay held; None: never."""
        return now + -(-(amount - self.spent) * self.per // self.held) if self.held else None

    def sentence(self) -> str:
        """The spending, for people."""
        return (
            f"project {self.project} has spent {hours(self.spent)} of the "
            f"{hours(self.budget.slot_ms)} slot-hours of its budget this month"
        )


def hours(slot_ms: int) -> str:
    """Slot-hours as people write them, rounded down to thousandths: `500`, `0.25`."""
    whole, thousandths = divmod(slot_ms * 1000 // HOUR, 1000)
    return f"{whole}.{thousandths:03d}".rstrip("0").rstrip(".") if thousandths else str(whole)
