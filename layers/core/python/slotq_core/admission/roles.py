"""Which execution roles a submission may name, and who may name which.

The queue hands the role to SageMaker with its own right to pass it, not with the caller's. So what
the caller may have is asked here, at the door: without this a user could run code under a role that
the user may not pass.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from slotq_core.errors import RoleNotAllowed

FIELD = "RoleArn"


@dataclass(frozen=True, kw_only=True, slots=True)
class ExecutionRoles:
    """The roles that training jobs may run under."""

    allowed: tuple[str, ...] | None = None
    """Their ARNs; None: any, as in the emulator, where no role gives any right."""
    users: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By ARN of a role: patterns of the callers' ARNs, of which one must fit (`*` stands for any
    text). A role that is not named here is for every caller."""

    def check(self, role: str, *, submitter: str) -> None:
        """Raises RoleNotAllowed with the roles that this caller may name."""
        if self.allowed is None:
            return
        open_to_them = [each for each in self.allowed if self._is_for(each, submitter)]
        if role in open_to_them:
            return
        choice = ", ".join(open_to_them) or "none at all"
        asked = f"'{role[:200]}' is no role" if role else "there is no role"
        raise RoleNotAllowed(
            f"{asked} that you may run training jobs under through this queue; these are: {choice}",
            field=FIELD,
        )

    def _is_for(self, role: str, submitter: str) -> bool:
        patterns = self.users.get(role)
        return patterns is None or any(fits(pattern, submitter) for pattern in patterns)


ANY_ROLE = ExecutionRoles()


def fits(pattern: str, text: str) -> bool:
    """Whether the text is of that pattern, in which `*` stands for any text."""
    parts = (re.escape(part) for part in pattern.split("*"))
    return re.fullmatch(".*".join(parts), text) is not None
