"""A set of victims: what it frees, what it costs, and what of it can be spared (DESIGN 5.1).

"Drop what turns out not to be needed, last chosen first. Of all the job's pools, the one with the
smallest harm." Preempt and reclaim (preempt.py, reclaim.py) choose.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from slotq_core.model import Demand
from slotq_core.policy.fit import PoolRoom
from slotq_core.policy.order import Rank
from slotq_core.policy.stakes import Stake


@dataclass(frozen=True, kw_only=True, slots=True)
class Eviction:
    """Victims whose slots, with what is free and coming, are enough."""

    room: PoolRoom
    victims: tuple[Stake, ...]

    def harm(self) -> tuple[tuple[Rank, ...], int, int]:
        """Small is good: "fewer of a higher rank, then less slot-time lost, then fewer victims"."""
        ranks = (victim.rank for victim in self.victims for _ in victim.places)
        return (
            tuple(sorted(ranks, reverse=True)),
            sum(victim.lost for victim in self.victims),
            sum(len(victim.places) for victim in self.victims),
        )


def least_harm(found: Sequence[Eviction]) -> Eviction | None:
    """Between equals the first: the job's own order of pools."""
    return min(found, key=Eviction.harm, default=None)


def spared(chosen: Sequence[Stake], enough: Callable[[Sequence[Stake]], bool]) -> tuple[Stake, ...]:
    """Without those that turn out not to be needed, the last chosen looked at first."""
    kept = list(chosen)
    for victim in reversed(chosen):
        without = [other for other in kept if other is not victim]
        if enough(without):
            kept = without
    return tuple(kept)


def freed(victims: Sequence[Stake], pool: str) -> Demand:
    """What they hold of that pool."""
    return sum((victim.frees(pool) for victim in victims), Demand())
