"""Budgets: what a project may spend in a calendar month (UTC), in slots multiplied by time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

HOUR = 3_600_000
"""An hour in ms."""

WARNED_AT = 80
"""The part of a budget, in percent, at which the queue warns."""


class Beyond(StrEnum):
    """What happens to a project that has spent its budget, until the month ends."""

    SOFT = "soft"
    """All that the project holds counts as over quota: it uses what is idle, and gives it back."""
    HARD = "hard"
    """None of its jobs starts. What runs goes on."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Budget:
    """What a project may spend in each calendar month."""

    slot_ms: int
    """Slots multiplied by ms, above 0. An attempt counts from its admission to its end."""
    beyond: Beyond = Beyond.SOFT


@dataclass(frozen=True, kw_only=True, slots=True)
class Spending:
    """What projects with a budget have spent in one month, of attempts that have ended."""

    month: int = 0
    """The first moment of the month (ms). For any other month, nothing is known or spent."""
    slot_ms: Mapping[str, int] = field(default_factory=dict)
    """By project. A project that is missing has spent nothing."""
    warned: frozenset[str] = frozenset()
    """The projects for which the queue has warned in this month."""


NOTHING_SPENT = Spending()


@dataclass(frozen=True, kw_only=True, slots=True)
class BudgetStanding:
    """What a project has spent of its budget at one moment, what runs included."""

    project: str
    budget: Budget
    spent: int
    """Slots multiplied by ms."""
    held: int
    """The slots that its jobs hold now, at which it spends."""
    resets_at: int
    """When (ms) the next month begins, and the budget anew."""
    warned: bool = False
    """Whether the queue has warned in this month."""

    @property
    def is_spent(self) -> bool:
        return self.spent >= self.budget.slot_ms

    @property
    def is_near(self) -> bool:
        """Whether the part is spent at which the queue warns."""
        return self.spent >= self.near

    @property
    def near(self) -> int:
        """The amount (slots multiplied by ms) at which the queue warns."""
        return -(-self.budget.slot_ms * WARNED_AT // 100)

    def reaches(self, amount: int, now: int) -> int | None:
        """When (ms) the spending reaches the amount, if as many slots stay held; None: never."""
        return now + -(-(amount - self.spent) // self.held) if self.held else None

    def sentence(self) -> str:
        """What has been spent, for people."""
        return (
            f"project {self.project} has spent {hours(self.spent)} of the "
            f"{hours(self.budget.slot_ms)} slot-hours of its budget this month"
        )


def hours(slot_ms: int) -> str:
    """Slot-hours as people write them, rounded down to thousandths: `500`, `0.25`."""
    whole, thousandths = divmod(slot_ms * 1000 // HOUR, 1000)
    return f"{whole}.{thousandths:03d}".rstrip("0").rstrip(".") if thousandths else str(whole)
