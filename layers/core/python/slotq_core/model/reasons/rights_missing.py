"""AWS refuses to start the job because a right is missing. The job is not at fault."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from slotq_core.model.reasons.base import Reason
from slotq_core.timestamps import iso


@dataclass(frozen=True, kw_only=True, slots=True)
class RightsMissing(Reason):
    """A right is missing that every job of the pool needs, or every job of one execution role."""

    code: ClassVar[str] = "rights_missing"
    pool: str
    role: str
    """The execution role's ARN; empty: every job of the pool needs it."""
    action: str
    """The missing action in IAM's notation."""
    until: int | None
    """When the start is tried again (ms); None: with the next free slots."""
    probe: str
    """The job that probes now; empty: none."""
    cause: str

    def sentence(self) -> str:
        whose = f"execution role {self.role}" if self.role else "the queue"
        return f"{whose} lacks {self.action} in pool {self.pool}; {self._next()}: {self.cause}"

    def _next(self) -> str:
        if self.until is not None:
            return f"tried again at {iso(self.until)}"
        if self.probe:
            return f"{self.probe} is trying it"
        return "tried again on the next free slots, and nothing is evicted for it until then"
