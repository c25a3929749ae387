"""Fair shares: the division of one resource among projects, or among departments.

Every project first gets min(quota, limit, request). The surplus goes by strict project priority,
then by weight among those still unsatisfied (weight 0 gets none; where no weight is given it is the
quota), whole slots, remainders to the largest fraction, then the older, then the name. Weights and
quotas all zero: equal weights; weights of 0 beside quotas stay 0. As in the Run:ai scheduler.

Past use may change the weights: with W a sharer's part of all weights and U its part of past use,
both among those still unsatisfied, the weight is max(0, W + influence * (W - U)). As in the
time-based fair share of KAI-Scheduler.

See docs/policy-decisions.md#shares-and-reclaim and docs/policy-decisions.md#fair-over-time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby


@dataclass(kw_only=True, slots=True)
class Sharer:
    """A project or department that takes part. Amounts are whole units of one resource."""

    name: str
    age: int
    """The place among all by age; 0 is the oldest."""
    quota: int
    limit: int | None
    request: int
    """All that is held and asked for."""
    weight: int | None
    priority: int
    past: int = 0
    """Its past use, in any unit that is the same for all."""

    @property
    def most(self) -> int:
        return self.request if self.limit is None else min(self.limit, self.request)


def divide(total: int, sharers: Iterable[Sharer], influence: int = 0) -> dict[str, int]:
    """The fair shares by name. Guaranteed quotas may add up to more than the total. `influence`: of
    past use on weights, in hundredths."""
    everyone = sorted(sharers, key=lambda sharer: (-sharer.priority, sharer.age, sharer.name))
    shares = {sharer.name: min(sharer.quota, sharer.most) for sharer in everyone}
    surplus = total - sum(shares.values())
    weights = weights_of(everyone)
    for _, group in groupby(everyone, key=lambda sharer: sharer.priority):
        if surplus <= 0:
            break
        surplus = _divide_surplus(surplus, list(group), weights, shares, influence)
    return shares


def weights_of(everyone: Sequence[Sharer]) -> dict[str, int]:
    """The weights by name, without past use."""
    weights = {
        sharer.name: sharer.quota if sharer.weight is None else sharer.weight for sharer in everyone
    }
    deserving = any(weights.values()) or any(sharer.quota for sharer in everyone)
    return weights if deserving else dict.fromkeys(weights, 1)


def _divide_surplus(
    surplus: int,
    group: Sequence[Sharer],
    own_weights: dict[str, int],
    shares: dict[str, int],
    influence: int,
) -> int:
    """Divide the surplus among sharers of one priority. Return the rest that none of them asks
    for."""
    weights = own_weights
    while True:
        wanting = [
            sharer
            for sharer in group
            if own_weights[sharer.name] and shares[sharer.name] < sharer.most
        ]
        if not wanting or surplus <= 0:
            return surplus
        if influence:
            weights = by_past_use(wanting, own_weights, influence)
        whole = sum(weights[sharer.name] for sharer in wanting)
        satisfied = [
            sharer
            for sharer in wanting
            if (sharer.most - shares[sharer.name]) * whole <= surplus * weights[sharer.name]
        ]
        if not satisfied:
            _give_whole(surplus, wanting, weights, shares)
            return 0
        for sharer in satisfied:
            surplus -= sharer.most - shares[sharer.name]
            shares[sharer.name] = sharer.most


def by_past_use(
    sharers: Sequence[Sharer], weights: Mapping[str, int], influence: int
) -> dict[str, int]:
    """The weights of these sharers, changed by their past use. At least one stays above 0."""
    whole = sum(weights[sharer.name] for sharer in sharers)
    used = sum(sharer.past for sharer in sharers)
    if not used:
        return {sharer.name: weights[sharer.name] for sharer in sharers}
    return {
        sharer.name: max(
            0,
            (100 + influence) * weights[sharer.name] * used - influence * sharer.past * whole,
        )
        for sharer in sharers
    }


def _give_whole(
    surplus: int, wanting: Sequence[Sharer], weights: dict[str, int], shares: dict[str, int]
) -> None:
    """Divide a surplus that satisfies no sharer: each gets the whole part; units left over
    go to the largest fractions, one each."""
    whole = sum(weights[sharer.name] for sharer in wanting)
    left, fractions = surplus, {}
    for sharer in wanting:
        part, fractions[sharer.name] = divmod(surplus * weights[sharer.name], whole)
        shares[sharer.name] += part
        left -= part
    by_fraction = sorted(
        wanting, key=lambda sharer: (-fractions[sharer.name], sharer.age, sharer.name)
    )
    for sharer in by_fraction[:left]:
        shares[sharer.name] += 1
