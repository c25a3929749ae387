"""Past use by project and pool, with old use counted less.

A day's use counts whole until its day has ended (UTC). Then it loses half in each half-life, in a
straight line between two halvings, and after eight half-lives it does not count. Whole numbers
only: the same records give the same parts everywhere, in any order.

See docs/policy-decisions.md#fair-over-time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from slotq_core.model.projects import (
    EVERYWHERE,
    HOUR,
    NO_PAST_USE,
    PARTS,
    PastUse,
    counts_by_pool,
)
from slotq_core.model.sharing import Sharing
from slotq_core.usage.amounts import Window
from slotq_core.usage.attempt_use import AttemptUse
from slotq_core.usage.calendar_days import begin_of, day_of, days, end_of

HALVINGS = 8
"""How many half-lives use counts."""

DayUse = dict[str, Counter[tuple[str, str]]]
"""Slots multiplied by ms, by calendar day, then by project and pool."""


def hour_of(moment: int) -> int:
    """The last full hour (ms), up to which use counts at that moment."""
    return moment - moment % HOUR


def is_due(kept: PastUse, sharing: Sharing, now: int) -> bool:
    """Whether past use counts and is to be added up: an hour is over, or the settings differ."""
    settings = sharing.fair_share
    if settings is None:
        return False
    by_pool = counts_by_pool((*sharing.projects, *sharing.departments))
    known = kept.at, kept.half_life, kept.by_pool
    return known != (hour_of(now), settings.half_life, by_pool)


def add_attempt(found: DayUse, use: AttemptUse, until: int) -> None:
    """Add the attempt's use up to a moment (ms)."""
    start, end = use.used_since, min(use.used_until(until), until)
    if end <= start:
        return
    for day in days(day_of(start), day_of(end)):
        window, there = (
            Window(start=begin_of(day), end=end_of(day)),
            found.setdefault(day, Counter()),
        )
        for part in use.held:
            amount = window.use_of(part.slots, use.part_of_slot, start, end)
            there[use.project, part.pool] += amount


def past_use(
    found: Iterable[DayUse], at: int, sharing: Sharing, before: PastUse = NO_PAST_USE
) -> PastUse:
    """Return each project's part of all use up to an hour (ms). `before`: sums to which `found`
    adds; they lose with time as one day's use does."""
    assert sharing.fair_share is not None
    half_life = sharing.fair_share.half_life
    by_pool = counts_by_pool((*sharing.projects, *sharing.departments))
    by_day: DayUse = {}
    for part in found:
        for day, amounts in part.items():
            by_day.setdefault(day, Counter()).update(amounts)
    names = {project.name for project in sharing.projects}
    by_scope: dict[str, Counter[str]] = {}
    dated = [
        (at - end_of(day), pool if by_pool else EVERYWHERE, project, amount)
        for day, amounts in by_day.items()
        for (project, pool), amount in amounts.items()
    ]
    dated += [
        (at - before.at, scope, project, 1000 * before.slot_seconds[scope] * part // PARTS)
        for scope, parts in before.parts.items()
        for project, part in parts.items()
        if before.by_pool == by_pool
    ]
    for age, scope, project, amount in dated:
        counts = decayed(amount, age, half_life)
        if counts and project in names:
            by_scope.setdefault(scope, Counter())[project] += counts
    return PastUse(
        at=at,
        half_life=half_life,
        by_pool=by_pool,
        parts={scope: parts_of(own) for scope, own in sorted(by_scope.items())},
        slot_seconds={scope: own.total() // 1000 for scope, own in sorted(by_scope.items())},
    )


def decayed(amount: int, age: int, half_life: int) -> int:
    """What an amount counts at an age (ms)."""
    halvings, rest = divmod(max(0, age), half_life)
    if halvings >= HALVINGS:
        return 0
    return amount * (2 * half_life - rest) // (2 * half_life << halvings)


def parts_of(amounts: Mapping[str, int]) -> dict[str, int]:
    """Divide 64 parts in the ratio of these amounts, all of which are above 0: remainders go to the
    largest fraction, then by name."""
    whole = sum(amounts.values())
    fractions = {name: divmod(amount * PARTS, whole) for name, amount in amounts.items()}
    parts = {name: part for name, (part, _) in fractions.items()}
    left = PARTS - sum(parts.values())
    for name in sorted(fractions, key=lambda name: (-fractions[name][1], name))[:left]:
        parts[name] += 1
    return {name: parts[name] for name in sorted(parts) if parts[name]}
