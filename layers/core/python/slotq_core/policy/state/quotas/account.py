"""The account of one project or department: its use, shares and limits.

Only resources named in a quota take part in shares; if no quota names any, slots do. Of other
resources there only has to be enough. Over when any is over, under when all are. A limit binds
every resource that it names.

See docs/policy-decisions.md#shares-and-reclaim.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from slotq_core.model.demand import NOTHING, Demand
from slotq_core.model.projects import Department, Project

Deprivation = tuple[bool, bool, int, float, int, str]


@dataclass(kw_only=True, slots=True)
class Account:
    """One project or department in one scope. The amounts change as the plan decides."""

    name: str
    key: str = field(init=False)
    """Unique across projects and departments, which may share a name."""
    age: int
    owner: Project | Department
    resources: tuple[str, ...]
    """The resources that take part in shares."""
    quota: Demand
    """The guaranteed amount: nothing beyond a soft budget."""
    configured_quota: Demand
    """The quota as configured. It is also the weight if no weight is configured."""
    limit: Mapping[str, int]
    """By resource; a resource without an entry has no limit."""
    configured_limit: Mapping[str, int] = field(default_factory=dict)
    """The limit as configured, without the one that follows from the quota."""
    share: Demand = NOTHING
    """The fair share, fixed for the plan."""
    deserved: Demand = NOTHING
    """The base of the dominant share: the larger of quota and fair share, up to the limit."""
    past: int = 0
    """The owner's part of past use in the scope, in 64ths."""
    due: int = 0
    """The part of all use that its weight deserves, in ten-thousandths."""
    share_by_weights: Demand | None = None
    """The fair share as it would be without past use; None: past use does not count."""
    keeps: Demand = NOTHING
    """What others may not reclaim: the fair share. Where past use moves that, a little more, so
    that small changes wait for jobs to end."""
    used: Demand = NOTHING
    """Held for fairness: without stopping jobs, with claims."""
    fixed: Demand = NOTHING
    """The part of `used` that cannot be evicted."""
    promised: Demand = NOTHING
    """The part of `used` that waits for slots to come free. No job can reclaim it yet."""
    stopping: Demand = NOTHING
    asked: Demand = NOTHING
    """All that the owner holds and waits for."""
    known_gives: tuple[bool, bool] | None = None
    """The cached result of `gives`."""
    known_giving: Deprivation | None = None
    """The cached result of `giving`; None until first asked for."""

    def __post_init__(self) -> None:
        self.key = f"{type(self.owner).__name__} {self.name}"

    def over_share(self, gone: Demand = NOTHING) -> bool:
        """Whether any resource is above what others may not reclaim, without `gone`."""
        return (self.used - gone).exceeds(self.keeps, self.resources, NOTHING)

    def within_weights(self, gone: Demand = NOTHING) -> bool:
        """Whether past use alone brings the account above its fair share: without `gone`, it holds
        no more than its share by weights."""
        by_weights = self.share_by_weights
        held = self.used - gone
        return by_weights is not None and not held.exceeds(by_weights, self.resources, NOTHING)

    def under_share(self, gone: Demand = NOTHING) -> bool:
        """Whether any resource is below the fair share, without `gone`."""
        return self.share.exceeds(self.used - gone, self.resources, NOTHING)

    def has_share(self) -> bool:
        """Whether any resource has reached the fair share."""
        return self.used.reaches(self.share, self.resources)

    def over_quota(self, gone: Demand = NOTHING) -> bool:
        return (self.used - gone).exceeds(self.quota, self.resources, NOTHING)

    def gives(self) -> tuple[bool, bool]:
        """Whether the account is over its share, and over its quota: others may then reclaim from
        it. What is only promised does not count. Cached until an amount changes."""
        if self.known_gives is None:
            held = self.used - self.promised
            self.known_gives = (
                held.exceeds(self.keeps, self.resources, NOTHING),
                held.exceeds(self.quota, self.resources, NOTHING),
            )
        return self.known_gives

    def in_share(self, demand: Demand) -> bool:
        """Whether the account with the demand stays within its fair share in all resources."""
        return not self.used.exceeds(self.share, self.resources, demand)

    def in_quota(self, demand: Demand) -> bool:
        return not self.used.exceeds(self.quota, self.resources, demand)

    def fixed_in_quota(self, demand: Demand) -> bool:
        """Whether work that cannot be evicted stays within the quota with the demand."""
        return not self.fixed.exceeds(self.quota, self.resources, demand)

    def over_limit(self, demand: Demand, gone: Demand = NOTHING) -> Demand:
        """The excess over the limit with the demand, by resource of the demand."""
        if not self.limit:
            return NOTHING
        held = self.used + self.stopping - gone + demand
        return Demand({n: max(0, held[n] - most) for n, most in self.limit.items() if n in demand})

    def beyond_share(self, demand: Demand, before: Demand | None = None) -> Demand:
        """The excess over the fair share with the demand, by resource. Where more was held `before`
        (default: `used`), the excess counts from there."""
        if self.in_share(demand):
            return NOTHING
        held = self.used if before is None else before
        most = {name: max(self.share[name], held[name]) for name in self.resources}
        return Demand({n: max(0, self.used[n] + demand[n] - most[n]) for n in self.resources})

    def giving(self) -> Deprivation:
        """`deprivation` without promised slots; cached until an amount changes."""
        if self.known_giving is None:
            self.known_giving = self.deprivation(gone=self.promised)
        return self.known_giving

    def has_moved(self) -> None:
        """Clear the cached results."""
        self.known_giving = self.known_gives = None

    def deprivation(self, demand: Demand = NOTHING, gone: Demand = NOTHING) -> Deprivation:
        """The sort key of projects and departments: smaller is more deprived. "Not over its fair
        share; within quota after this job; project priority; lower dominant share with this job
        counted; older; name." `gone`: what to leave out of `used`."""
        held = self.used - gone
        return (
            held.exceeds(self.share, self.resources, NOTHING),
            held.exceeds(self.quota, self.resources, demand),
            -self.owner.priority,
            held.largest_part(self.deserved, self.resources, demand),
            self.age,
            self.name,
        )


Chain = tuple[Account, ...]
"""A project's account, then its department's if it has one. Empty without projects."""
