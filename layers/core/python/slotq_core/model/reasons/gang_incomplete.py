"""Reasons that lie in the job's gang."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from slotq_core.model.reasons.base import Reason, in_slots, kept_free


@dataclass(frozen=True, kw_only=True, slots=True)
class GangIncomplete(Reason):
    """Too few members of the gang wait: others are stopping, back off, or are not submitted yet."""

    code: ClassVar[str] = "gang_incomplete"
    group: str
    needed: int
    waiting: int
    missing: tuple[str, ...]
    """Mandatory members that do not wait."""

    def sentence(self) -> str:
        text = f"gang {self.group} must start {self.needed} jobs at once; {self.waiting} wait"
        return f"{text}, and these are missing: {', '.join(self.missing)}" if self.missing else text


@dataclass(frozen=True, kw_only=True, slots=True)
class GangBlocked(Reason):
    """The pools have no room for enough of the gang at once."""

    code: ClassVar[str] = "gang_blocked"
    group: str
    needed: int
    free: int
    """Free slots in all pools of the gang together."""
    drains: str
    """The pool that drains for this job; empty: none."""
    project: str = ""
    """As in `Reserved`, of that pool."""

    def sentence(self) -> str:
        must = f"gang {self.group} needs room for {self.needed} of its jobs at once"
        text = f"{must}; its pools have {in_slots(self.free)} free"
        return f"{text}, and {kept_free(self.drains, self.project)}" if self.drains else text


@dataclass(frozen=True, kw_only=True, slots=True)
class EndangersItsGang(Reason):
    """The gang runs without this job. With the job, the whole gang could be evicted or
    reclaimed."""

    code: ClassVar[str] = "endangers_its_gang"
    group: str
    pool: str
    needed: int
    free: int
    counts_as: str
    """The job's class, if lower than the gang's; empty: the job would take its project above its
    fair share."""

    def sentence(self) -> str:
        may = (
            f"needs {in_slots(self.needed)}, and pool {self.pool} has {self.free} free. Its "
            f"gang {self.group} runs without it; with it"
        )
        all_of_it = "the whole gang could be"
        if self.counts_as:
            return f"{may} {all_of_it} evicted for more jobs, as it would count as {self.counts_as}"
        return f"{may} {all_of_it} reclaimed, as its project would be above its fair share"
