"""Callers: the table of rights in a project with patterns of callers, and the limits on callers:
waiting jobs, submissions per minute, and priority.

In limits, 0 means "no limit" throughout.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum


class Role(IntEnum):
    """The rights of a person in a project; each role includes those below it."""

    NOBODY = 0
    VIEWER = 1
    """Sees the project's jobs."""
    MEMBER = 2
    """Submits jobs, and cancels and amends the own ones, up to the project's largest priority."""
    ADMIN = 3
    """Does anything to any job of the project."""
    OPERATOR = 4
    """Does anything to any job, and changes the configuration."""


class Action(StrEnum):
    """An action of a caller. IAM decides first, by method and path."""

    LOOK = "look"
    """See the pools, the limits, the record of changes, the release and oneself."""
    SUBMIT = "submit"
    SEE = "see"
    """See a job, why it waits, and its request. Secrets of the request are for the submitter's
    identity alone (`privacy.disclosure`)."""
    CHANGE = "change"
    """Cancel a job, hold or release it, requeue it, change its settings, move it."""
    SEE_PERSON = "see_person"
    """See the use of one person by name. Everybody may see the total use of a project."""
    EXCEED_PRIORITY = "exceed_priority"
    """Give a priority above the project's largest."""
    OPERATE = "operate"
    """Change pools, limits and projects; examine and mend the queue's records."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Needed:
    """The least role in the job's project."""

    own: Role
    """For a job that the caller has submitted."""
    others: Role
    """For any other job."""


NEEDED: Mapping[Action, Needed] = {
    Action.LOOK: Needed(own=Role.NOBODY, others=Role.NOBODY),
    Action.SUBMIT: Needed(own=Role.MEMBER, others=Role.MEMBER),
    Action.SEE: Needed(own=Role.NOBODY, others=Role.VIEWER),
    Action.CHANGE: Needed(own=Role.MEMBER, others=Role.ADMIN),
    Action.SEE_PERSON: Needed(own=Role.NOBODY, others=Role.ADMIN),
    Action.EXCEED_PRIORITY: Needed(own=Role.ADMIN, others=Role.ADMIN),
    Action.OPERATE: Needed(own=Role.OPERATOR, others=Role.OPERATOR),
}
"""The one table of rights, for a queue with projects. OPERATE needs a role only where there are
operators."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Access:
    """The people of a project, as patterns of ARNs in which `*` matches any text. A pattern is
    compared with the caller's ARN and with the person behind it."""

    viewers: tuple[str, ...] = ()
    members: tuple[str, ...] = ()
    admins: tuple[str, ...] = ()
    default_for: tuple[str, ...] = ()
    """The members and admins whose jobs belong to this project if they name none."""


NO_ACCESS = Access()


_KINDS = (
    "iam::{}:user/{}",
    "iam::{}:role/{}",
    "sts::{}:assumed-role/{}",
    "sts::{}:assumed-role/{}/{}",
    "sts::{}:federated-user/{}",
)
"""The forms of callers' ARNs, and of their roles' ARNs, behind the partition."""
_PARTITIONS = ("aws", "aws-cn", "aws-us-gov", "aws-eusc", "aws-iso", "aws-iso-b")
_NAMES = (("000000000000", "a", "b"), ("999999999999", "Q", "7"))
"""The accounts, names and sessions of two callers, all different."""


def fits_everybody(pattern: str) -> bool:
    """Whether the pattern matches all callers of one kind: it matches two of them that share
    neither account nor name."""
    return any(
        all(fits(pattern, f"arn:{partition}:{kind.format(*names)}") for names in _NAMES)
        for partition in _PARTITIONS
        for kind in _KINDS
    )


def fits(pattern: str, text: str) -> bool:
    """Whether the whole text matches the pattern, in which `*` matches any text. Takes time in
    proportion to the text, whatever the pattern."""
    first, *others = pattern.split("*")
    if not others:
        return pattern == text
    *middle, last = others
    at, end = len(first), len(text) - len(last)
    if at > end or not (text.startswith(first) and text.endswith(last)):
        return False
    for part in middle:
        found = text.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True


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
