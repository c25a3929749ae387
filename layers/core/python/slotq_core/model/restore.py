"""A restore of the queue's table from an older copy."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Restore:
    """When the table was copied, and when the copy took its place (ms). What happened in between is
    not in the table."""

    copied_at: int
    restored_at: int

    def hides(self, moment: int) -> bool:
        """Whether the table knows nothing of this moment (ms)."""
        return self.copied_at <= moment <= self.restored_at
