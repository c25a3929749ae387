"""The rules of the job's project keep it back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from slotq_core.model.reasons.base import Reason


@dataclass(frozen=True, kw_only=True, slots=True)
class WaitsForApproval(Reason):
    """The job is held until an admin of its project releases it."""

    code: ClassVar[str] = "waits_for_approval"
    project: str

    def sentence(self) -> str:
        return f"waits until an admin of project {self.project} releases it"


@dataclass(frozen=True, kw_only=True, slots=True)
class StartForbidden(Reason):
    """The rules of the project have changed since the submission, and forbid the start."""

    code: ClassVar[str] = "start_forbidden"
    project: str
    rules: str
    """The broken rules, each with its field."""

    def sentence(self) -> str:
        return (
            f"is held, because the rules of project {self.project} forbid its start: {self.rules}. "
            "Release it when the rules allow it again, or submit it anew"
        )
