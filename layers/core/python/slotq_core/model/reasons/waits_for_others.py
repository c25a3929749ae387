"""It is not the job's turn: others come first, or its own time has not come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from slotq_core.model.reasons.base import Reason
from slotq_core.timestamps import iso


@dataclass(frozen=True, kw_only=True, slots=True)
class BehindInLine(Reason):
    """Blocked alike by what blocks the first job of its line."""

    code: ClassVar[str] = "behind_in_line"
    ahead: int
    """Jobs of its pools before it in the order."""

    def sentence(self) -> str:
        return f"{self.ahead} {'job is' if self.ahead == 1 else 'jobs are'} ahead of it"


@dataclass(frozen=True, kw_only=True, slots=True)
class BackingOff(Reason):
    """Waits for a time, after a capacity error or a fault of SageMaker's."""

    code: ClassVar[str] = "backing_off"
    until: int
    cause: str

    def sentence(self) -> str:
        return f"tries again at {iso(self.until)}: {self.cause}"


@dataclass(frozen=True, kw_only=True, slots=True)
class WaitsForJobs(Reason):
    """Comes after other jobs, which have not completed yet."""

    code: ClassVar[str] = "waits_for_jobs"
    jobs: tuple[str, ...]

    def sentence(self) -> str:
        one = len(self.jobs) == 1
        return f"comes after {', '.join(self.jobs)}, which {'has' if one else 'have'} to complete"


@dataclass(frozen=True, kw_only=True, slots=True)
class TriesAgain(Reason):
    """Waits for the next attempt to start it, as the scheduler settings have it."""

    code: ClassVar[str] = "tries_again"
    until: int
    attempts: int
    """How many were in vain so far."""
    cause: str
    """What was in the way at the last one."""

    def sentence(self) -> str:
        return f"is tried again at {iso(self.until)}: {self.cause}"


@dataclass(frozen=True, kw_only=True, slots=True)
class NextPass(Reason):
    """Nothing keeps it: it starts with the next pass, which is on its way."""

    code: ClassVar[str] = "next_pass"
    pool: str

    def sentence(self) -> str:
        return f"starts in pool {self.pool} with the next pass"
