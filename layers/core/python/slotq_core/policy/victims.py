"""A set of victims: what it frees, what it costs, and what of it can be spared (DESIGN 5.1).

"Drop what turns out not to be needed, last chosen first. Of all the job's pools, the one with the
smallest harm." Preempt and reclaim (preempt.py, reclaim.py) choose.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from slotq_core.model import Demand, Job
from slotq_core.policy.fit import PoolRoom
from slotq_core.policy.order import Rank, rank
from slotq_core.policy.stakes import unsaved


@dataclass(frozen=True, kw_only=True, slots=True)
class Eviction:
    """Victims whose slots, with what is free and coming, are enough."""

    room: PoolRoom
    victims: tuple[Job, ...]

    def harm(self, now: int) -> tuple[tuple[Rank, ...], int, int]:
        """Small is good: "fewer of a higher rank, then less slot-time lost, then fewer victims"."""
        return (
            tuple(sorted((rank(victim) for victim in self.victims), reverse=True)),
            sum(victim.demand.slots * unsaved(victim, now) for victim in self.victims),
            len(self.victims),
        )


def least_harm(found: Sequence[Eviction], now: int) -> Eviction | None:
    """Between equals the first: the job's own order of pools."""
    return min(found, key=lambda eviction: eviction.harm(now), default=None)


def spared(chosen: Sequence[Job], enough: Callable[[Sequence[Job]], bool]) -> tuple[Job, ...]:
    """Without those that turn out not to be needed, the last chosen looked at first."""
    kept = list(chosen)
    for victim in reversed(chosen):
        without = [other for other in kept if other is not victim]
        if enough(without):
            kept = without
    return tuple(kept)


def freed(victims: Sequence[Job]) -> Demand:
    return sum((victim.demand for victim in victims), Demand())
