"""What callers may ask of the queue: how much may wait, how often they submit, how high they rank.

Everywhere 0 stands for "no limit".
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class CallerLimits:
    """What one caller may do."""

    waiting: int = 0
    """Jobs that are kept and hold no slots: waiting, backing off or held."""
    submissions: int = 0
    """New jobs a minute."""
    priority: int = 0
    """The largest priority."""


NO_LIMIT = CallerLimits()


@dataclass(frozen=True, kw_only=True, slots=True)
class CallerRule:
    """Limits of their own for the callers whose ARN fits a pattern."""

    callers: str
    """`*` stands for any text."""
    together: bool = False
    """All of them count as one caller: for a role whose users choose their session's name."""
    waiting: int | None = None
    """None, here and below: as every other caller's."""
    submissions: int | None = None
    priority: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """The queue's limits. A caller is an IAM identity as it signed the request; of an assumed role,
    each session is a caller of its own."""

    each: CallerLimits = NO_LIMIT
    """For each caller that no rule fits."""
    rules: tuple[CallerRule, ...] = ()
    """The first that fits a caller counts."""
    waiting_in_all: int = 0
    """As `CallerLimits.waiting`, of all callers together."""
    lines: int = 0
    """Distinct lines: a pass looks at the head of each."""

    @property
    def count_anything(self) -> bool:
        """Whether anything has to be counted for them."""
        each: tuple[CallerLimits | CallerRule, ...] = (self.each, *self.rules)
        callers = any(one.waiting or one.submissions for one in each)
        return bool(callers or self.waiting_in_all or self.lines)


NO_LIMITS = Limits()


@dataclass(frozen=True, kw_only=True, slots=True)
class CallerUse:
    """What a caller has used, as it was counted."""

    waiting: int = 0
    submissions: int = 0
    """In the present minute."""


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueUse:
    """What all callers have used together, at the last audit."""

    waiting: int = 0
    lines: int = 0


NOTHING_USED = QueueUse()
