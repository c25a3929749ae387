"""Past use by project and pool, and by user, with old use counted less.

A day's use counts whole until its day has ended (UTC). Then it loses half in each half-life, in a
straight line between two halvings, and after eight half-lives it does not count. Whole numbers
only: the same records give the same parts everywhere, in any order.

See docs/policy-decisions.md#fair-over-time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cached_property

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

DayUse = dict[str, Counter[tuple[str, str, str]]]
"""Slots multiplied by ms, by calendar day, then by project, pool and user."""


def hour_of(moment: int) -> int:
    """The last full hour (ms), up to which use counts at that moment."""
    return moment - moment % HOUR


def is_due(kept: PastUse, sharing: Sharing, now: int) -> bool:
    """Whether past use counts and is to be added up: an hour is over, or the settings differ."""
    settings = sharing.fair_share
    if settings is None:
        return False
    by_pool = counts_by_pool((*sharing.projects, *sharing.departments))
    known = kept.at, kept.half_life, kept.by_pool, kept.of
    return known != (hour_of(now), settings.half_life, by_pool, settings.of)


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
            there[use.project, part.pool, use.submitter] += amount


def past_use(
    found: Iterable[DayUse], at: int, sharing: Sharing, before: PastUse = NO_PAST_USE
) -> PastUse:
    """Return each project's part of all use up to an hour (ms), and each user's part of the
    project's. `before`: sums to which `found` adds; they lose with time as one day's use does."""
    settings = sharing.fair_share
    assert settings is not None
    by_pool = counts_by_pool((*sharing.projects, *sharing.departments))
    by_day: DayUse = {}
    for part in found:
        for day, amounts in part.items():
            by_day.setdefault(day, Counter()).update(amounts)
    projects = {project.name for project in sharing.projects}
    by_scope, by_project = _Sums(settings.half_life), _Sums(settings.half_life)
    for day, amounts in by_day.items():
        age = at - end_of(day)
        for (project, pool, user), amount in amounts.items():
            if settings.of_projects and project in projects:
                by_scope.add(pool if by_pool else EVERYWHERE, project, amount, age)
            if settings.of_users and (project in projects or not projects):
                by_project.add(project, user, amount, age)
    if settings.of_projects and before.by_pool == by_pool:
        by_scope.add_parts(before.parts, before.slot_seconds, at - before.at)
    if settings.of_users:
        by_project.add_parts(before.users, before.user_slot_seconds, at - before.at)
    return PastUse(
        at=at,
        half_life=settings.half_life,
        by_pool=by_pool,
        of=settings.of,
        parts=by_scope.parts(),
        slot_seconds=by_scope.seconds(),
        users=by_project.parts(),
        user_slot_seconds=by_project.seconds(),
    )


class _Sums:
    """Amounts by owner in several wholes, old ones counted less."""

    def __init__(self, half_life: int) -> None:
        self._half_life = half_life
        self._amounts: dict[str, Counter[tuple[str, int]]] = {}
        """Slots multiplied by ms, by whole, then by owner and age: only whole days lose alike."""

    def add(self, whole: str, owner: str, amount: int, age: int) -> None:
        self._amounts.setdefault(whole, Counter())[owner, age] += amount

    def add_parts(
        self, parts: Mapping[str, Mapping[str, int]], seconds: Mapping[str, int], age: int
    ) -> None:
        """Add sums of before, of which only the parts are known."""
        for whole, own in parts.items():
            for owner, part in own.items():
                self.add(whole, owner, 1000 * seconds[whole] * part // PARTS, age)

    @cached_property
    def _counted(self) -> dict[str, Counter[str]]:
        found: dict[str, Counter[str]] = {}
        for whole, amounts in sorted(self._amounts.items()):
            for (owner, age), amount in amounts.items():
                if counts := decayed(amount, age, self._half_life):
                    found.setdefault(whole, Counter())[owner] += counts
        return found

    def parts(self) -> dict[str, dict[str, int]]:
        return {whole: parts_of(own) for whole, own in self._counted.items()}

    def seconds(self) -> dict[str, int]:
        return {whole: own.total() // 1000 for whole, own in self._counted.items()}


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
