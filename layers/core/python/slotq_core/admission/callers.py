"""Callers by their ARNs: whom a pattern names, and who is the same person."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from slotq_core.model.access import fits
from slotq_core.privacy.disclosure import identity

_SESSION = re.compile(
    r"arn:(?P<partition>[^:]*):sts::(?P<account>[^:]*):assumed-role/(?P<role>[^/]+)/(?P<name>.+)",
    re.DOTALL,
)


def same_person(one: str, other: str) -> bool:
    """Whether two callers are one person, as far as IAM can tell."""
    return bool(one) and person(one) == person(other)


def person(caller: str) -> str:
    """The person behind a caller, as far as IAM can tell."""
    return identity(caller)


def is_any(caller: str, patterns: Iterable[str]) -> bool:
    """Whether a pattern names the caller. A session of a role has three names: the session, and the
    role as STS and as IAM write it.

    In a session's name, `*` does not reach across the slash between role and session: whoever may
    assume one role chooses the session's name, which must not look like another role's.
    """
    names, session = _names(caller)
    for pattern in patterns:
        if "*" not in pattern:  # Most patterns: comparing is much quicker than matching.
            if pattern == caller or pattern in names:
                return True
        elif any(fits(pattern, name) for name in names) or _fits_session(pattern, *session):
            return True
    return False


@lru_cache(maxsize=1024)
def _names(caller: str) -> tuple[tuple[str, ...], tuple[str, str]]:
    """The names of a caller without that of a session; and the session: its role, and its name,
    which is empty if the caller is no session."""
    session = _SESSION.fullmatch(caller)
    if session is None:
        return (caller,), ("", "")
    partition, account, role, name = session.groups()
    as_sts = f"arn:{partition}:sts::{account}:assumed-role/{role}"
    return (as_sts, f"arn:{partition}:iam::{account}:role/{role}"), (as_sts, name)


def _fits_session(pattern: str, role: str, name: str) -> bool:
    of_role, _, of_name = pattern.rpartition("/")
    return bool(name) and fits(of_name, name) and fits(of_role, role)
