"""The better set of victims.

Where a better set exists (fewer of a higher rank, then less cost in whole starts, then fewer
evictions in the last 24 h, then less slot-time lost, then fewer victims) and is found within
bounds, it is taken. The search starts from the greedy set (victims.py) and
replaces it only by a less harmful one.

The search extends sets candidate by candidate. Among sets that cover the same part of the
shortfall, it keeps the least harmful: harm adds up, so later candidates cannot change which set is
better. The result is exact within `SETS` steps, which always suffice for up to 14 candidates.

See docs/policy-decisions.md#victims.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from slotq_core.policy.actions.victims import Amounts, Shortfalls
from slotq_core.policy.order import Rank
from slotq_core.policy.state.candidates import Candidate

SETS = 1 << 14
"""Most sets to examine for one eviction in one pool. The best set found by then counts."""

_COUNT = 20
_LOST = 60
"""Bits for the number of victims, or of evictions, and for slot-milliseconds, with room for
sums."""
_PAID = _COUNT + _LOST
_COST = _PAID + _COUNT
"""The lowest bits of the evictions and of the cost."""


def better(
    chosen: Sequence[Candidate], candidates: Sequence[Candidate], shortfalls: Shortfalls, base: Rank
) -> tuple[Candidate, ...]:
    """The least harmful set of candidates that meets the shortfalls: `chosen`, or a better one.

    `candidates`: in eviction order. Of equally harmful sets, the one without the latest wins. A
    start of this plan counts only up to the last of `chosen`: "the last started is taken first". So
    do the members beyond a core, of which the last joined is taken first.
    `base`: as in `Eviction.harm`.
    """
    last = max((victim.order for victim in chosen), default=None)
    candidates = [
        candidate
        for candidate in candidates
        if not (candidate.started and last and candidate.order > last)
        if not candidate.joined or candidate in chosen
    ]
    harm = _Harm(candidates, base)
    most = sum(map(harm.of, chosen))
    useful = [
        (candidate, contribution)
        for candidate in candidates
        if harm.of(candidate) < most and any(contribution := shortfalls.contribution(candidate))
    ]
    search = _Search(goal=shortfalls.amounts, best=most << len(useful))
    offered = _offer_gangs(search, useful, shortfalls, harm)
    for place, (candidate, contribution) in enumerate(useful):
        if search.left <= 0:
            break
        if not (offered and candidate in offered):
            search.offer(harm.of(candidate) << len(useful) | 1 << place, contribution)
    found = tuple(
        victim
        for place, (candidate, _) in enumerate(useful)
        if search.best >> place & 1
        for victim in (*candidate.extras, candidate)
    )
    return found or tuple(chosen)


def _offer_gangs(
    search: _Search,
    useful: Sequence[tuple[Candidate, Amounts]],
    shortfalls: Shortfalls,
    harm: _Harm,
) -> set[Candidate]:
    """Offer the members of elastic gangs: of each gang either chosen ones beyond the core, or all.
    Return the candidates offered, with the cores that no set may take."""
    offered: set[Candidate] = set()
    for place, (core, contribution) in enumerate(useful):
        if not core.extras:
            continue
        offered |= {core, *core.extras}
        before = {**search.sets}
        for other, (extra, gives) in enumerate(useful):
            if extra in core.extras:
                search.offer(harm.of(extra) << len(useful) | 1 << other, gives)
        if not any(extra.started for extra in core.extras):
            gifts = [contribution, *map(shortfalls.contribution, core.extras)]
            whole = sum(map(harm.of, (*core.extras, core)))
            search.offer(
                whole << len(useful) | 1 << place, tuple(map(sum, zip(*gifts, strict=True))), before
            )
    return offered


class _Harm:
    """Harm as one number; sums compare as `Eviction.harm` of the sets does.

    From the highest bits: the number of victims of each rank above `base`, the highest rank first;
    the cost; the evictions in the last 24 h; the slot-time lost; the number of victims.
    """

    def __init__(self, candidates: Sequence[Candidate], base: Rank) -> None:
        ranks = sorted({candidate.rank for candidate in candidates if candidate.rank > base})
        self._shift = {rank: _COST + _LOST + _COUNT * level for level, rank in enumerate(ranks)}

    def of(self, candidate: Candidate) -> int:
        number = candidate.number
        shift = self._shift.get(candidate.rank)
        above = 0 if shift is None else number << shift
        cost = (candidate.slot_cost << _COST) + (candidate.paid << _PAID)
        return above + cost + (candidate.lost << _COUNT) + number


@dataclass(kw_only=True, slots=True)
class _Search:
    """The sets examined so far, each a number: its harm, with the members in the lowest bits."""

    goal: Amounts
    best: int
    """The least harmful set that meets the goal."""
    left: int = SETS
    """How many more sets the search may examine."""
    sets: dict[Amounts, int] = field(default_factory=dict)
    """The least harmful set for each part of the goal."""

    def offer(
        self, cost: int, contribution: Amounts, onto: Mapping[Amounts, int] | None = None
    ) -> None:
        """Extend every set so far by one candidate, or only the sets in `onto`."""
        extended = self.sets if onto is None else onto
        for had, harm in [((0,) * len(self.goal), 0), *extended.items()]:
            self.left -= 1
            if harm + cost < self.best:
                self._keep(self._sum(had, contribution), harm + cost)

    def _keep(self, gives: Amounts, harm: int) -> None:
        if gives == self.goal:
            self.best = harm
        elif harm < self.sets.get(gives, self.best):
            self.sets[gives] = harm

    def _sum(self, one: Amounts, other: Amounts) -> Amounts:
        together = zip(one, other, self.goal, strict=True)
        return tuple(min(a + b, most) for a, b, most in together)
