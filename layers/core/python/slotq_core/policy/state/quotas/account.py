"""What one project or department holds, deserves and may not exceed (DESIGN 5.2).

Of several resources, those take part in shares that a quota names (where none does: slots); the
others only have to be there. "Over when any is over, under when all are." A limit binds whatever
it names.
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
    """One project or department in one scope. The amounts move as the walk decides."""

    name: str
    key: str = field(init=False)
    """A department and a project may bear one name."""
    age: int
    owner: Project | Department
    resources: tuple[str, ...]
    """Those that shares are made of."""
    quota: Demand
    limit: Mapping[str, int]
    """By resource; one that is not there has none."""
    share: Demand = NOTHING
    """Its fair share, fixed for the plan."""
    deserved: Demand = NOTHING
    """What "dominant share" is a part of: the larger of quota and share, up to the limit."""
    used: Demand = NOTHING
    """Held, in fairness' eyes."""
    fixed: Demand = NOTHING
    """The part of `used` that cannot be evicted."""
    promised: Demand = NOTHING
    """The part of `used` that only waits for slots to come free: nobody can take it back yet."""
    stopping: Demand = NOTHING
    asked: Demand = NOTHING
    """What it holds and waits for in all."""
    known: dict[Demand, Deprivation] = field(default_factory=dict)
    """Its deprivation by the demand asked for, as long as `used` stands."""
    known_giving: Deprivation | None = None
    """The same as whoever reclaims sees it, for nothing asked for; once it has been asked for."""

    def __post_init__(self) -> None:
        self.key = f"{type(self.owner).__name__} {self.name}"

    def over_share(self, gone: Demand = NOTHING) -> bool:
        """Over when it is in any resource."""
        return any(self.used[name] - gone[name] > self.share[name] for name in self.resources)

    def under_share(self) -> bool:
        """Under when it is in any resource: it waits for more that it deserves."""
        return any(self.used[name] < self.share[name] for name in self.resources)

    def has_share(self) -> bool:
        """Whether it has all of it in any resource, or more."""
        return any(self.used[name] >= self.share[name] for name in self.resources)

    def over_quota(self, gone: Demand = NOTHING) -> bool:
        return any(self.used[name] - gone[name] > self.quota[name] for name in self.resources)

    def gives(self) -> tuple[bool, bool]:
        """Whether it has more than its share, and more than its quota, so that others may reclaim
        from it: without what is only promised to it."""
        return self.over_share(self.promised), self.over_quota(self.promised)

    def in_share(self, demand: Demand) -> bool:
        """Whether it stays within its fair share, in all resources, with the demand."""
        return self._within(self.share, demand)

    def in_quota(self, demand: Demand) -> bool:
        return self._within(self.quota, demand)

    def fixed_in_quota(self, demand: Demand) -> bool:
        """Whether what cannot be evicted stays within the quota, with the demand."""
        held = self.fixed + demand
        return all(held[name] <= self.quota[name] for name in self.resources)

    def over_limit(self, demand: Demand, gone: Demand = NOTHING) -> Demand:
        """How much too much it would hold with the demand."""
        if not self.limit:
            return NOTHING
        held = self.used + self.stopping - gone + demand
        return Demand({n: max(0, held[n] - most) for n, most in self.limit.items() if n in demand})

    def beyond_share(self, demand: Demand, before: Demand | None = None) -> Demand:
        """How much more it would hold with the demand than its fair share, or than it held before
        where that is more."""
        held = self.used if before is None else before
        most = {name: max(self.share[name], held[name]) for name in self.resources}
        return Demand({n: max(0, self.used[n] + demand[n] - most[n]) for n in self.resources})

    def asking(self, demand: Demand) -> Deprivation:
        """`deprivation` with the demand, made once for each until the account moves."""
        known = self.known.get(demand)
        if known is None:
            known = self.known[demand] = self.deprivation(demand)
        return known

    def giving(self) -> Deprivation:
        """`deprivation` as whoever reclaims sees it: without what is only promised to it."""
        if self.known_giving is None:
            self.known_giving = self.deprivation(gone=self.promised)
        return self.known_giving

    def has_moved(self) -> None:
        """What is known of it holds no more."""
        self.known.clear()
        self.known_giving = None

    def deprivation(self, demand: Demand = NOTHING, gone: Demand = NOTHING) -> Deprivation:
        """Who is served first between projects, and between departments: smaller is more deprived.

        "Not over its fair share; within quota after this job; project priority; lower dominant
        share with this job counted; older; name."
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

    def dominant_share(self, demand: Demand = NOTHING, gone: Demand = NOTHING) -> float:
        """What it holds over its fair share, as a ratio: above 1 it has more than it deserves."""
        held = self.used - gone + demand
        return self._largest_part(held, self.share)

    def _within(self, bound: Demand, demand: Demand) -> bool:
        return all(self.used[name] + demand[name] <= bound[name] for name in self.resources)

    def _largest_part(self, held: Demand, base: Demand) -> float:
        """The largest part that is held of the base, in any resource."""
        parts = [
            held[name] / base[name] if base[name] > 0 else INFINITE
            for name in self.resources
            if held[name] > 0
        ]
        return max(parts, default=0.0)


Chain = tuple[Account, ...]
"""A project's account and then its department's, where it has one. Empty: no projects at all."""
