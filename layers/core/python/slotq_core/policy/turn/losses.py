"""What one turn takes from jobs served in the same plan, so that other jobs are revisited."""

from __future__ import annotations

from dataclasses import dataclass, field

from slotq_core.policy.state.candidates import Place


@dataclass(slots=True)
class Losses:
    """The losses of one turn."""

    taken_back: list[Place] = field(default_factory=list)
    """The jobs that lost their slots, each with the pool."""
    moved_to: set[str] = field(default_factory=set)
    """Pools where a moved job has started. They keep no slots for it any more."""
    elsewhere: bool = False
    """Whether a job starts in another pool than this plan first gave it."""

    def __bool__(self) -> bool:
        return bool(self.taken_back or self.moved_to or self.elsewhere)

    def copy(self) -> Losses:
        return Losses(list(self.taken_back), set(self.moved_to), self.elsewhere)
