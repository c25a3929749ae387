"""The better set of victims (DESIGN 5.1).

"Where a better set exists (fewer of a higher rank, then less slot-time lost, then fewer victims)
and is found within bounds, it is taken." The greedy set (victims.py) is the one to beat, so the
result is never worse than that; and between equals it stands.

Sets are built up candidate by candidate. Of those that give the same, as far as it is lacking, only
the least harmful is kept: harm adds up, so whatever is added later, it stays the better one. That
makes it exact where one resource is lacking, with as many candidates as that takes; and in any case
with up to 14 candidates, for these have fewer sets than may be looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from slotq_core.policy.actions.victims import Amounts, Shortfalls
from slotq_core.policy.order import Rank
from slotq_core.policy.state.candidates import Candidate

SETS = 1 << 14
"""How many sets are looked at for one eviction in one pool. What is found by then counts."""

_COUNT = 20
_LOST = 60
"""Bits for how many victims, and for the slot-milliseconds that they lose, with room for sums."""


def better(
    chosen: Sequence[Candidate], candidates: Sequence[Candidate], shortfalls: Shortfalls, base: Rank
) -> tuple[Candidate, ...]:
    """The least harmful of the candidates that give what is lacking: those chosen, or better ones.

    `candidates`: in the order in which they are taken; of equally harmful sets the one that does
    without the last of them wins. `base`: victims of this rank are not "of a higher rank".
    """
    harm = _Harm(candidates, base)
    most = sum(map(harm.of, chosen))
    useful = [
        (candidate, given)
        for candidate in candidates
        if harm.of(candidate) < most and any(given := shortfalls.given(candidate))
    ]
    search = _Search(goal=shortfalls.amounts, best=most << len(useful))
    for place, (candidate, given) in enumerate(useful):
        search.offer(harm.of(candidate) << len(useful) | 1 << place, given)
        if search.left <= 0:
            break
    found = tuple(
        candidate for place, (candidate, _) in enumerate(useful) if search.best >> place & 1
    )
    return found or tuple(chosen)


class _Harm:
    """Harm as one number, so that sums compare as `victims.harm` of the sets does: in its highest
    bits how many victims are of the highest rank, in its lowest how many there are at all."""

    def __init__(self, candidates: Sequence[Candidate], base: Rank) -> None:
        ranks = sorted({candidate.rank for candidate in candidates if candidate.rank > base})
        self._shift = {rank: _LOST + _COUNT * (1 + level) for level, rank in enumerate(ranks)}

    def of(self, candidate: Candidate) -> int:
        number = len(candidate.places)
        shift = self._shift.get(candidate.rank)
        above = 0 if shift is None else number << shift
        return above + (candidate.lost << _COUNT) + number


@dataclass(kw_only=True, slots=True)
class _Search:
    """The sets looked at so far. A set is a number: its harm, and in the lowest bits its members,
    so that no two are equal and the order of the candidates decides between equals."""

    goal: Amounts
    best: int
    """The least harmful set that gives all of the goal."""
    left: int = SETS
    sets: dict[Amounts, int] = field(default_factory=dict)
    """By what they give of the goal, the least harmful that does."""

    def offer(self, cost: int, given: Amounts) -> None:
        """Every set so far, with one candidate more."""
        for had, harm in [((0,) * len(self.goal), 0), *self.sets.items()]:
            self.left -= 1
            if harm + cost < self.best:
                self._keep(self._sum(had, given), harm + cost)

    def _keep(self, gives: Amounts, harm: int) -> None:
        if gives == self.goal:
            self.best = harm
        elif harm < self.sets.get(gives, self.best):
            self.sets[gives] = harm

    def _sum(self, one: Amounts, other: Amounts) -> Amounts:
        together = zip(one, other, self.goal, strict=True)
        return tuple(min(a + b, most) for a, b, most in together)
