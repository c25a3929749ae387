"""Sets of victims: freed amounts, harm, and members that are not needed.

Candidates one by one; then drop what turns out not to be needed, last chosen first. Of all the
job's pools, the one with the smallest harm. Preempt and reclaim (preempt.py, reclaim.py) choose
the candidates; victim_search.py looks for a better set.

See docs/policy-decisions.md#victims.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from slotq_core.model.demand import Demand
from slotq_core.policy.order import Rank
from slotq_core.policy.state.candidates import Candidate
from slotq_core.policy.state.pool_room import PoolRoom

Amounts = tuple[int, ...]
"""One number for each missing resource of each shortfall."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Eviction:
    """Victims whose slots, with those free and coming free, are enough."""

    room: PoolRoom
    victims: tuple[Candidate, ...]

    def harm(self, base: Rank) -> tuple[tuple[Rank, ...], int, int, int, int]:
        """The sort key of harm: "fewer of a higher rank (above `base`), then less cost in whole
        starts, then fewer evictions in the last 24 h, then less slot-time lost, then fewer
        victims". Smaller is better."""
        ranks = (victim.rank for victim in self.victims for _ in range(victim.number))
        return (
            tuple(sorted((rank for rank in ranks if rank > base), reverse=True)),
            sum(victim.slot_cost for victim in self.victims),
            sum(victim.paid for victim in self.victims),
            sum(victim.lost for victim in self.victims),
            sum(victim.number for victim in self.victims),
        )


def least_harm(found: Iterable[Eviction | None], base: Rank) -> Eviction | None:
    """The least harmful eviction, or None; of equals the first, which follows the job's pools."""
    return min(
        (eviction for eviction in found if eviction),
        key=lambda eviction: eviction.harm(base),
        default=None,
    )


class Shortfall(NamedTuple):
    """An amount that the job is missing, and how much of it each victim gives."""

    missing: Demand
    gives: Callable[[Candidate], Demand]

    def can_be_met_by(self, candidates: Iterable[Candidate]) -> bool:
        """Whether all these together give enough."""
        return not self.missing or self.missing.within(Demand.total(map(self.gives, candidates)))


class Shortfalls:
    """Everything that victims must give for a job to start in one pool."""

    def __init__(self, *shortfalls: Shortfall) -> None:
        self._shortfalls = [shortfall for shortfall in shortfalls if shortfall.missing]
        self.amounts: Amounts = tuple(
            amount for shortfall in self._shortfalls for amount in shortfall.missing.values()
        )

    def contribution(self, candidate: Candidate) -> Amounts:
        """The candidate's contribution to each of `amounts`."""
        gifts = [(missing, gives(candidate)) for missing, gives in self._shortfalls]
        return tuple([gift[name] for missing, gift in gifts for name in missing])

    def met_by(self, victims: Iterable[Candidate]) -> bool:
        """Whether the victims together meet every shortfall."""
        missing = self.amounts
        for victim in victims:
            missing = _less(missing, self.contribution(victim))
        return all(amount <= 0 for amount in missing)


def one_by_one(
    candidates: Iterable[Candidate], shortfalls: Shortfalls
) -> tuple[Candidate, ...] | None:
    """The first candidates that meet the shortfalls, without those not needed in the end; None if
    all together are not enough."""
    chosen: list[tuple[Candidate, Amounts]] = []
    missing = shortfalls.amounts
    for victim in candidates:
        if all(amount <= 0 for amount in missing):
            break
        contribution = shortfalls.contribution(victim)
        if any(gift > 0 < amount for gift, amount in zip(contribution, missing, strict=True)):
            chosen.append((victim, contribution))
            missing = _less(missing, contribution)
    return None if any(amount > 0 for amount in missing) else _spared(chosen, missing)


def spared(chosen: Iterable[Candidate], shortfalls: Shortfalls) -> tuple[Candidate, ...]:
    """The chosen victims without those that are not needed, dropping the last chosen first."""
    contributions = [(victim, shortfalls.contribution(victim)) for victim in chosen]
    missing = shortfalls.amounts
    for _, gift in contributions:
        missing = _less(missing, gift)
    return _spared(contributions, missing)


def _spared(chosen: Iterable[tuple[Candidate, Amounts]], missing: Amounts) -> tuple[Candidate, ...]:
    """`missing`: the shortfall with all the chosen victims gone; no amount is above 0."""
    kept: list[Candidate] = []
    stop_anyway: set[Candidate] = set()
    for victim, contribution in reversed(list(chosen)):
        without = tuple(amount + gift for amount, gift in zip(missing, contribution, strict=True))
        if victim not in stop_anyway and all(amount <= 0 for amount in without):
            missing = without
        else:
            kept.append(victim)
            stop_anyway.update(victim.extras)
    return tuple(reversed(kept)) if not stop_anyway else _with_extras(kept[::-1])


def _with_extras(victims: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """The victims, with the other members of each elastic gang whose core is among them: they come
    before the core."""
    return tuple(dict.fromkeys(chain.from_iterable((*v.extras, v) for v in victims)))


def _less(amounts: Amounts, subtracted: Amounts) -> Amounts:
    return tuple([amount - gift for amount, gift in zip(amounts, subtracted, strict=True)])
