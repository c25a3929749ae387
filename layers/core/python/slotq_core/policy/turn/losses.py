"""What one turn takes from those who were given it in this plan: then others are asked again."""

from __future__ import annotations

from dataclasses import dataclass, field

from slotq_core.policy.state.candidates import Place


@dataclass(slots=True)
class Losses:
    """Of one turn."""

    taken_back: list[Place] = field(default_factory=list)
    """Who lost what it was given, and where."""
    moved_to: set[str] = field(default_factory=set)
    """Pools to which somebody moves and has come: nothing is kept for it any more."""
    elsewhere: bool = False
    """Whether others start in another pool than they were to."""

    def __bool__(self) -> bool:
        return bool(self.taken_back or self.moved_to or self.elsewhere)

    def copy(self) -> Losses:
        return Losses(list(self.taken_back), set(self.moved_to), self.elsewhere)
