"""Limits on callers: waiting jobs, submissions per minute, and priority.

0 means "no limit" throughout.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class CallerLimits:
    """The limits on one caller."""

    waiting: int = 0
    """The most jobs without slots: waiting, backing off or held."""
    submissions: int = 0
    """The most new jobs a minute."""
    priority: int = 0
    """The largest priority."""

    def never_hold(self, number: int) -> bool:
        """Whether so many new jobs at once are more than the limits ever allow."""
        return 0 < self.waiting < number or 0 < self.submissions < number


NO_LIMIT = CallerLimits()


@dataclass(frozen=True, kw_only=True, slots=True)
class CallerRule:
    """Separate limits for the callers whose ARN matches a pattern."""

    callers: str
    """A pattern for ARNs; `*` matches any text."""
    together: bool = False
    """Count all matching callers as one."""
    waiting: int | None = None
    """None, here and below: the limit in `Limits.default`."""
    submissions: int | None = None
    priority: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """The queue's limits. A caller is a person (`privacy.identity`): the sessions of a role count
    as one caller, unless the identity provider names them."""

    default: CallerLimits = NO_LIMIT
    """Limits for a caller that no rule matches."""
    rules: tuple[CallerRule, ...] = ()
    """The first matching rule counts."""
    waiting_in_all: int = 0
    """As `CallerLimits.waiting`, for all callers together."""
    lines: int = 0
    """The most distinct lines with waiting jobs. A pass looks at the head of each line."""

    @property
    def count_anything(self) -> bool:
        """Whether any limit needs counting; a priority limit does not."""
        limits: tuple[CallerLimits | CallerRule, ...] = (self.default, *self.rules)
        callers = any(one.waiting or one.submissions for one in limits)
        return bool(callers or self.waiting_in_all or self.lines)


NO_LIMITS = Limits()


@dataclass(frozen=True, kw_only=True, slots=True)
class CallerUse:
    """A caller's use of the limits, as counted."""

    waiting: int = 0
    submissions: int = 0
    """Submissions in the current minute, and changes that opened a line."""
    lines: int = 0
    """Lines that the caller has opened and that are still kept."""


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueUse:
    """All callers' use together, as of the last audit."""

    waiting: int = 0
    lines: int = 0
    """Lines with waiting jobs."""


NOTHING_USED = QueueUse()


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenLine:
    """A line, as a census sees it."""

    opener: str = ""
    """The mark of the caller who opened the line (`opener_mark`); empty: a pass, or
    an earlier version."""
    submitters: Sequence[str] = ()
    """The submitters with jobs in the line, in order of entry, then those with jobs that will come
    to the line without a user's action."""


def opener_mark(caller: str) -> str:
    """The mark of the caller who has opened a line: a short hash of the name that the caller is
    counted under."""
    return hashlib.sha256(caller.encode()).hexdigest()[:12]
