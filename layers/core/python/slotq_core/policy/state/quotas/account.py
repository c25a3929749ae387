"""What one project or department holds, deserves and may not exceed (DESIGN 5.2).

Only resources named in a quota take part in shares; if no quota names any, slots do. Of other
resources there only has to be enough. "Over when any is over, under when all are." A limit binds
every resource that it names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from slotq_core.model.demand import Demand
from slotq_core.model.projects import Department, Project

NOTHING = Demand()
INFINITE = float("inf")

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
    limit: Mapping[str, int]
    """By resource; a resource without an entry has no limit."""
    share: Demand = NOTHING
    """The fair share, fixed for the plan."""
    deserved: Demand = NOTHING
    """The base of the dominant share: the larger of quota and fair share, up to the limit."""
    used: Demand = NOTHING
    """What counts as held for fairness: without stopping jobs, with claims."""
    fixed: Demand = NOTHING
    """The part of `used` that cannot be evicted."""
    promised: Demand = NOTHING
    """The part of `used` that waits for slots to come free. Nobody can reclaim it yet."""
    stopping: Demand = NOTHING
    asked: Demand = NOTHING
    """All that the owner holds and waits for."""
    known: dict[Demand, Deprivation] = field(default_factory=dict)
    """The cached deprivation for each demand. Cleared when an amount changes."""
    known_gives: tuple[bool, bool] | None = None
    """The cached result of `gives`."""
    known_giving: Deprivation | None = None
    """The cached result of `giving`; None until first asked for."""

    def __post_init__(self) -> None:
        self.key = f"{type(self.owner).__name__} {self.name}"

    def over_share(self, gone: Demand = NOTHING) -> bool:
        """Whether any resource is above the fair share, without `gone`."""
        return any(self.used[name] - gone[name] > self.share[name] for name in self.resources)

    def under_share(self, gone: Demand = NOTHING) -> bool:
        """Whether any resource is below the fair share, without `gone`."""
        return any(self.used[name] - gone[name] < self.share[name] for name in self.resources)

    def has_share(self) -> bool:
        """Whether any resource has reached the fair share."""
        return any(self.used[name] >= self.share[name] for name in self.resources)

    def over_quota(self, gone: Demand = NOTHING) -> bool:
        return any(self.used[name] - gone[name] > self.quota[name] for name in self.resources)

    def gives(self) -> tuple[bool, bool]:
        """Whether the account is over its share, and whether it is over its quota.

        Others may reclaim from it then. What is only promised does not count. Cached until an
        amount changes.
        """
        if self.known_gives is None:
            self.known_gives = self.over_share(self.promised), self.over_quota(self.promised)
        return self.known_gives

    def in_share(self, demand: Demand) -> bool:
        """Whether the account with the demand stays within its fair share in all resources."""
        return self._within(self.share, demand)

    def in_quota(self, demand: Demand) -> bool:
        return self._within(self.quota, demand)

    def fixed_in_quota(self, demand: Demand) -> bool:
        """Whether what cannot be evicted stays within the quota with the demand."""
        held = self.fixed + demand
        return all(held[name] <= self.quota[name] for name in self.resources)

    def over_limit(self, demand: Demand, gone: Demand = NOTHING) -> Demand:
        """The excess over the limit with the demand, by resource of the demand."""
        if not self.limit:
            return NOTHING
        held = self.used + self.stopping - gone + demand
        return Demand({n: max(0, held[n] - most) for n, most in self.limit.items() if n in demand})

    def beyond_share(self, demand: Demand, before: Demand | None = None) -> Demand:
        """The excess over the fair share with the demand, by resource.

        Where more than the share was held before, the excess counts from there. `before`: what was
        held; default: `used`.
        """
        held = self.used if before is None else before
        most = {name: max(self.share[name], held[name]) for name in self.resources}
        return Demand({n: max(0, self.used[n] + demand[n] - most[n]) for n in self.resources})

    def asking(self, demand: Demand) -> Deprivation:
        """`deprivation` with the demand counted, cached until an amount changes."""
        known = self.known.get(demand)
        if known is None:
            known = self.known[demand] = self.deprivation(demand)
        return known

    def giving(self) -> Deprivation:
        """`deprivation` for a reclaim, which ignores promised slots; cached until an amount
        changes."""
        if self.known_giving is None:
            self.known_giving = self.deprivation(gone=self.promised)
        return self.known_giving

    def has_moved(self) -> None:
        """Clear the cached results."""
        self.known.clear()
        self.known_giving = self.known_gives = None

    def deprivation(self, demand: Demand = NOTHING, gone: Demand = NOTHING) -> Deprivation:
        """The sort key for service order among projects or departments: smaller is more deprived.

        "Not over its fair share; within quota after this job; project priority; lower dominant
        share with this job counted; older; name."

        `gone`: what to leave out of `used`.
        """
        after = (self.used - gone if gone else self.used) + demand
        return (
            self.over_share(gone),
            any(after[name] > self.quota[name] for name in self.resources),
            -self.owner.priority,
            self._largest_part(after, self.deserved),
            self.age,
            self.name,
        )

    def _within(self, bound: Demand, demand: Demand) -> bool:
        if len(self.resources) == 1:  # The usual case, asked most often of all.
            (name,) = self.resources
            return self.used[name] + demand[name] <= bound[name]
        return all(self.used[name] + demand[name] <= bound[name] for name in self.resources)

    def _largest_part(self, held: Demand, base: Demand) -> float:
        """The largest ratio of `held` to `base` in any resource; infinite where `base` is zero."""
        parts = [
            held[name] / base[name] if base[name] > 0 else INFINITE
            for name in self.resources
            if held[name] > 0
        ]
        return max(parts, default=0.0)


Chain = tuple[Account, ...]
"""A project's account, then its department's if it has one. Empty without projects."""
