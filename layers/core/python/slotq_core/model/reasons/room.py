"""There is no room: what the job needs, and what its pool has, or will have, for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from slotq_core.model.reasons.base import Reason, in_slots, units
from slotq_core.timestamps import iso


@dataclass(frozen=True, kw_only=True, slots=True)
class NoFreeSlots(Reason):
    """The pool is full, and nothing that runs there may be evicted for this job."""

    code: ClassVar[str] = "no_free_slots"
    pool: str
    needed: int
    free: int
    capacity: int
    lower_ranked: int
    """Slots of the pool held by jobs of lower rank, evictable or not."""
    resource: str = "slots"
    """What the numbers count."""

    def sentence(self) -> str:
        lead = (
            f"needs {units(self.needed, self.resource)}; pool {self.pool} has {self.free} free of "
            f"{self.capacity}"
        )
        if not self.lower_ranked:
            return f"{lead}, and nothing that runs there has a lower priority"
        return f"{lead}, and evicting what has a lower priority there would not make enough room"


@dataclass(frozen=True, kw_only=True, slots=True)
class LowerRankedProtected(Reason):
    """Enough runs there at a lower rank, but it may not be evicted yet, or at all."""

    code: ClassVar[str] = "lower_ranked_protected"
    pool: str
    needed: int
    free: int
    until: int | None
    """When the earliest protection ends (ms); None: those jobs are not preemptible."""

    def sentence(self) -> str:
        lead = f"needs {in_slots(self.needed)}; pool {self.pool} has {self.free} free"
        if self.until is None:
            return f"{lead}, and the jobs of lower priority there are not preemptible"
        return (
            f"{lead}, and the jobs of lower priority there keep their slots until {iso(self.until)}"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class SlotsComing(Reason):
    """Slots are coming free, and they are for this job."""

    code: ClassVar[str] = "slots_coming"
    pool: str
    needed: int
    free: int
    coming: int

    def sentence(self) -> str:
        return (
            f"starts in pool {self.pool} when the stopping jobs there have ended: it needs "
            f"{in_slots(self.needed)}, {self.free} free now, {self.coming} coming free"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldForOthers(Reason):
    """Slots are free, but owed to a job that evicted for them or whose turn comes first."""

    code: ClassVar[str] = "held_for_others"
    pool: str
    needed: int
    free: int
    holder: str
    """The first of the jobs that they are held for."""
    holder_project: str = ""
    """Its project; empty: that of the job that waits, or there are none."""
    project: str = ""
    """That of the job that waits; given with `holder_project`, as are its figures."""
    used: int = 0
    quota: int = 0

    def sentence(self) -> str:
        free = f"the {self.free} free in pool {self.pool}"
        if not self.holder_project:
            return f"needs {in_slots(self.needed)}; {free} are held for {self.holder}"
        return (
            f"needs {in_slots(self.needed)}; project {self.project} uses {in_slots(self.used)}, "
            f"quota {self.quota}; {free} belong to project {self.holder_project} ({self.holder})"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Reserved(Reason):
    """The pool drains for this very job, which has waited longer than `reserve_after`."""

    code: ClassVar[str] = "reserved"
    pool: str
    needed: int
    free: int

    def sentence(self) -> str:
        return (
            f"pool {self.pool} takes nothing that comes after this job until it has its "
            f"{in_slots(self.needed)}; {self.free} free so far"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnComes(Reason):
    """The pool is full, and a job of equal rank there yields to it when its time slice is over."""

    code: ClassVar[str] = "turn_comes"
    pool: str
    needed: int
    free: int
    until: int
    """When the first such slice is over (ms)."""

    def sentence(self) -> str:
        return (
            f"needs {in_slots(self.needed)}; pool {self.pool} has {self.free} free, and the first "
            f"time slice there that ends for it does so at {iso(self.until)}"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class ShareUsed(Reason):
    """The pool is full, and its project may take back no more: it has what it deserves."""

    code: ClassVar[str] = "share_used"
    pool: str
    needed: int
    project: str
    used: int
    share: int
    quota: int
    resource: str = "slots"
    """What the numbers count."""

    def sentence(self) -> str:
        return (
            f"needs {units(self.needed, self.resource)}; pool {self.pool} is full, and project "
            f"{self.project} uses {units(self.used, self.resource)} of its fair share "
            f"{self.share} (quota {self.quota})"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolsTooSmall(Reason):
    """None of its pools is large enough any more, or it has none left."""

    code: ClassVar[str] = "pools_too_small"
    needed: int
    largest: int
    resource: str = "slots"
    """What the numbers count."""

    def sentence(self) -> str:
        needs = f"needs {units(self.needed, self.resource)}"
        return f"{needs}, but the largest of its pools now has {self.largest} in all"


@dataclass(frozen=True, kw_only=True, slots=True)
class NeedsSeveralPools(Reason):
    """The pools that it runs over have no room for all of its parts at once."""

    code: ClassVar[str] = "needs_several_pools"
    needed: tuple[tuple[str, int], ...]
    """Slots by pool."""
    drains: str
    """A pool that is kept free for it; empty: none."""

    def sentence(self) -> str:
        parts = " and ".join(f"{in_slots(slots)} in pool {pool}" for pool, slots in self.needed)
        kept = f"; pool {self.drains} is kept free for it" if self.drains else ""
        return f"needs {parts} at the same time{kept}"
