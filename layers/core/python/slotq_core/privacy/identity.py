"""The person behind a caller's ARN.

A session of a role has a name. The identity provider sets the name for some roles, such as those of
IAM Identity Center; then role and session name are a person. For every other role the caller who
assumes it chooses the name, so the role alone counts. docs/security.md says when to trust a person.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from slotq_core.model.callers import fits
from slotq_core.model.sharing import NO_SHARING

_SESSION = re.compile(
    r"(?P<role>arn:(?P<partition>[^:]*):sts::(?P<account>[^:]*):assumed-role/(?P<name>[^/]+))/.+",
    re.DOTALL,
)
"""The ARN of a role's session. It shows the role's name without the role's path. Names of roles are
unique in an account, whatever their paths."""

_PATTERN = re.compile(r"(arn:[^:/]+:sts::[^:/]+:assumed-role/)?(?P<name>[\w+=,.@*-]+)", re.ASCII)
_AS_ARN = "arn:"


@dataclass(frozen=True, kw_only=True, slots=True)
class People:
    """The roles whose sessions are persons of their own."""

    session_roles: tuple[str, ...] = NO_SHARING.session_roles
    """As in `Sharing`."""

    def person(self, arn: str) -> str:
        """The person behind a caller, as an ARN: a role's session, a role alone, or the caller's
        own ARN if it is no session. The person of a person is the same."""
        return _person(self.session_roles, arn)

    def fit(self, pattern: str, arn: str) -> bool:
        """Whether a pattern of principals' ARNs means this caller.

        A role, in IAM's form without its path or in that of STS, means all of its sessions. A
        pattern of one session matches no caller if callers choose the session name: the pattern
        must leave the name open."""
        forms = _forms(self.session_roles, arn)
        if "*" not in pattern:  # So are most; comparing is much quicker than matching.
            return pattern in forms
        return any(fits(pattern, form) for form in forms)

    def why(self, arn: str) -> str:
        """How the person behind a caller was decided, as a sentence without a full stop."""
        session = _SESSION.fullmatch(arn)
        if session is None:
            return "the caller is no session of a role, so the whole ARN counts"
        pattern = _provider_names(self.session_roles, session)
        if pattern is not None:
            return f"the role's sessions are named by the identity provider ({pattern})"
        return (
            "the session name of this role is chosen by the caller who assumes it, so the role "
            "alone counts"
        )


@lru_cache(maxsize=4096)
def _person(session_roles: tuple[str, ...], arn: str) -> str:
    session = _SESSION.fullmatch(arn)
    if session is None or _provider_names(session_roles, session) is not None:
        return arn
    return session["role"]


@lru_cache(maxsize=4096)
def _forms(session_roles: tuple[str, ...], arn: str) -> tuple[str, ...]:
    """The texts that a pattern may match to mean this caller."""
    session = _SESSION.fullmatch(arn)
    if session is None:
        return (arn,)
    role, name = session["role"], session["name"]
    in_iam = f"arn:{session['partition']}:iam::{session['account']}:role/{name}"
    whole = arn if _person(session_roles, arn) == arn else f"{role}/*"
    return whole, role, in_iam


def _provider_names(session_roles: tuple[str, ...], session: re.Match[str]) -> str | None:
    """The pattern by which the identity provider names this session; None: it does not."""
    for pattern in session_roles:
        if fits(pattern, session["role"] if pattern.startswith(_AS_ARN) else session["name"]):
            return pattern
    return None


BY_DEFAULT = People()
"""The mapping of callers to people if nothing is configured. A stored job leaves out the person
that this mapping gives: never change the default."""


def fault_in(pattern: str) -> str:
    """The fault of a pattern of `session_roles`, with a correction; empty if it is valid."""
    right = "write the role's name, as in 'AWSReservedSSO_Research_*'"
    parts = _PATTERN.fullmatch(pattern)
    if parts is None:
        return (
            f"'{pattern}' matches no role: callers' ARNs show roles without their paths; {right}, "
            "or 'arn:aws:sts::123456789012:assumed-role/AWSReservedSSO_Research_*'"
        )
    if not parts["name"].strip("*"):
        return (
            f"'{pattern}' matches every role, and a caller who assumes a role could choose to be "
            f"anybody; {right}"
        )
    return ""
