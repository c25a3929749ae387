"""Why the queue warns of a running attempt, or stops it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from slotq_core.model.reasons.reason import Reason
from slotq_core.timestamps import iso, lasting


@dataclass(frozen=True, kw_only=True, slots=True)
class Stalled(Reason):
    """The attempt's script has reported nothing for its pool's `stall_after`, or for its group's
    heartbeat."""

    code: ClassVar[str] = "stalled"
    since: int
    """The last sign of life (ms)."""
    silent_for: int
    """How long the attempt had reported nothing then (ms)."""

    def sentence(self) -> str:
        silent = lasting(self.silent_for)
        return f"its script has reported nothing for {silent}, since {iso(self.since)}"
