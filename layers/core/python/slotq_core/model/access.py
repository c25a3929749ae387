"""Who may do what in a project, and patterns of callers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Role(IntEnum):
    """What a person may do in a project; each role includes those below it."""

    NOBODY = 0
    VIEWER = 1
    """Sees the project's jobs."""
    MEMBER = 2
    """Submits jobs, and cancels and amends the own ones, up to the project's largest priority."""
    ADMIN = 3
    """Does anything to any job of the project."""
    OPERATOR = 4
    """Does anything to any job, and changes the configuration."""


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


_STRANGERS = ("arn:aws:iam::000000000000:user/a", "arn:aws:sts::999999999999:assumed-role/b/c")
"""Callers with nothing in common: a pattern that matches both names nobody in particular."""


def fits_everybody(pattern: str) -> bool:
    """Whether the pattern matches callers who have nothing in common."""
    return all(fits(pattern, stranger) for stranger in _STRANGERS)


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
