"""The job's pools are not open, or not for as long as the job may run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from slotq_core.model.reasons.reason import Reason, in_slots
from slotq_core.timestamps import lasting


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolNotYetOpen(Reason):
    """The pool offers no slots now, or too few, because of its schedule."""

    code: ClassVar[str] = "pool_not_yet_open"
    pool: str
    needed: int
    slots: int
    """How many slots the pool offers now."""
    until: int | None
    """When it offers enough (ms); None: not known."""
    moment: str
    """The same, in the words of the pool's hours."""
    cause: str
    """Why it offers no more now (`SizeCause`)."""
    why: str = ""
    """The same as a sentence, where nothing is known of when it offers more."""

    def sentence(self) -> str:
        if self.why:
            return f"pool {self.pool} has no slots: {self.why}"
        if self.until is None:
            when = "no time is known from which on it has more"
        elif self.slots:
            when = f"it has more at {self.moment}"
        else:
            return f"pool {self.pool} opens at {self.moment}"
        if self.slots:
            offers = f"pool {self.pool} has {in_slots(self.slots)} now"
            return f"needs {in_slots(self.needed)}, and {offers}; {when}"
        return f"pool {self.pool} is closed, and {when}"


@dataclass(frozen=True, kw_only=True, slots=True)
class EndsTooLate(Reason):
    """The pool shrinks while the job may still run, and the job must not be interrupted."""

    code: ClassVar[str] = "ends_too_late"
    pool: str
    until: int
    """When jobs are asked to suspend (ms)."""
    moment: str
    """When the slots are gone, in the words of the pool's hours."""
    longest: int
    """The longest that an attempt of the job may run (ms); 0: not known, because the job is older
    than the pool's hours."""
    slots: int
    """How many slots the pool offers from then on."""
    cause: str
    """Why it offers no more then (`SizeCause`)."""
    preemptible: bool
    """Whether the job is preemptible; it then has no checkpoints."""

    def sentence(self) -> str:
        why = "has no checkpoints" if self.preemptible else "is not preemptible"
        longest = (
            f"may run for {lasting(self.longest)} (MaxRuntimeInSeconds)"
            if self.longest
            else "is older than the pool's hours, so that nothing is known of how long it may run"
        )
        closes = f"has {in_slots(self.slots)}" if self.slots else "closes"
        return f"pool {self.pool} {closes} at {self.moment}; the job {longest} and {why}"


@dataclass(frozen=True, kw_only=True, slots=True)
class SlotsSetAside(Reason):
    """A reservation of another project needs slots of the pool before the job has ended, and the
    job must not be evicted."""

    code: ClassVar[str] = "slots_set_aside"
    pool: str
    needed: int
    reserved: int
    """How many slots are reserved for other projects then."""
    capacity: int
    project: str
    """The project of the reservation, or of the largest of several."""
    begins: int
    """When the reservation begins (ms)."""
    ends: int
    """When it ends (ms)."""
    from_moment: str
    """The begin in words."""
    to_moment: str
    """The end in words."""
    longest: int
    """The longest that an attempt of the job may run (ms); 0: not known, because the job is older
    than the pool's reservations."""

    def sentence(self) -> str:
        longest = (
            f"may run for {lasting(self.longest)} (MaxRuntimeInSeconds)"
            if self.longest
            else "is older than the reservation, so that nothing is known of how long it may run"
        )
        return (
            f"{self.reserved} of the {in_slots(self.capacity)} of pool {self.pool} "
            f"{'is' if self.reserved == 1 else 'are'} reserved for project {self.project} from "
            f"{self.from_moment} to {self.to_moment}; the job needs {in_slots(self.needed)}, "
            f"{longest} and is not preemptible"
        )
