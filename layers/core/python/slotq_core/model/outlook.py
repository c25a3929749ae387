"""What stands beside a waiting job's reason when that one job is asked for: what could be evicted
for it and why it is not, what is reserved, and the earliest time known.

All of it typed, as reasons are: a code and numbers for programs, a sentence for people. It costs a
look at everything that holds slots in the job's pools, so no plan makes it unasked.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from slotq_core.model.reasons import Reason, units
from slotq_core.timestamps import iso

NAMED = 5
"""So many jobs of a group are named; the rest are counted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Outlook:
    """What one waiting job could have, and when. Empty where the job was not even tried."""

    rooms: tuple[Room, ...] = ()
    """One for each of its pools, in its own order."""
    spared: tuple[Spared, ...] = ()
    """Everything that holds slots there, by why it is not stopped for the job."""
    reserved: tuple[Reservation, ...] = ()
    """What is kept there, for the job itself or for others."""
    times: tuple[KnownTime, ...] = ()
    """The moments at which time alone may change something for the job, the earliest first."""

    @property
    def earliest(self) -> int | None:
        """The earliest of them (ms); None: it depends on what others do."""
        return self.times[0].at if self.times else None

    def with_times(self, *times: KnownTime) -> Outlook:
        """With these besides, in order."""
        every = sorted((*self.times, *times), key=lambda each: (each.at, each.pool, each.cause))
        return Outlook(
            rooms=self.rooms, spared=self.spared, reserved=self.reserved, times=tuple(every)
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Room(Reason):
    """What a pool has for the job, when its turn comes."""

    code: ClassVar[str] = "room"
    pool: str
    needed: int
    free: int
    coming: int
    """Coming free: held by what is stopping, and promised to nobody ahead."""
    missing: int
    """What others would have to give besides."""
    resource: str = "slots"
    """What the numbers count: what is missing most clearly, slots before others."""

    def sentence(self) -> str:
        return (
            f"pool {self.pool} has {self.free} free and {self.coming} coming free of the "
            f"{units(self.needed, self.resource)} that it needs; {self.missing} missing"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Spared(Reason):
    """Jobs that hold slots in one of the job's pools, and are not stopped for it for one cause."""

    pool: str
    jobs: tuple[str, ...]
    """The first `NAMED` of their names."""
    count: int
    slots: int
    """What they hold there."""

    def sentence(self) -> str:
        named, more = ", ".join(self.jobs), self.count - len(self.jobs)
        who = f"{named} and {more} more" if more else named
        verb = "holds" if self.count == 1 else "hold"
        return f"{who} {verb} {units(self.slots, 'slots')} of pool {self.pool}: {self._because()}"

    def _because(self) -> str:
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True, slots=True)
class NoLowerRank(Spared):
    """They are of the job's own project, and of no lower priority."""

    code: ClassVar[str] = "no_lower_rank"

    def _because(self) -> str:
        return "of no lower priority"


@dataclass(frozen=True, kw_only=True, slots=True)
class NeverEvicted(Spared):
    """Not preemptible, or of a class that is never evicted."""

    code: ClassVar[str] = "not_preemptible"

    def _because(self) -> str:
        return "not preemptible"


@dataclass(frozen=True, kw_only=True, slots=True)
class StopsAlready(Spared):
    """Their slots are coming free already."""

    code: ClassVar[str] = "already_stopping"

    def _because(self) -> str:
        return "stopping already"


@dataclass(frozen=True, kw_only=True, slots=True)
class StartUnanswered(Spared):
    """SageMaker has not answered their start yet: a stop could overtake it."""

    code: ClassVar[str] = "start_unanswered"

    def _because(self) -> str:
        return "SageMaker has not answered the start yet"


@dataclass(frozen=True, kw_only=True, slots=True)
class InMinRuntime(Spared):
    """Inside a `min_runtime`."""

    code: ClassVar[str] = "in_min_runtime"
    until: int | None
    """When the first of them is past it (ms); None: none of them has begun to run."""

    def _because(self) -> str:
        when = iso(self.until) if self.until is not None else "some time after its start"
        return f"inside the minimum runtime until {when}"


@dataclass(frozen=True, kw_only=True, slots=True)
class OfTheSameUser(Spared):
    """Of another project, but a user's job is never interrupted for one that ranks alike."""

    code: ClassVar[str] = "same_user"

    def _because(self) -> str:
        return "of the same user and rank"


@dataclass(frozen=True, kw_only=True, slots=True)
class GangStays(Spared):
    """A gang is evicted whole, and one of it may not be stopped."""

    code: ClassVar[str] = "gang_stays"
    group: str

    def _because(self) -> str:
        return f"gang {self.group} is stopped whole, and not all of it may be"


@dataclass(frozen=True, kw_only=True, slots=True)
class SliceNotOver(Spared):
    """Of equal rank and another user: they yield when their time slice is over."""

    code: ClassVar[str] = "slice_not_over"
    until: int
    """When the first of these slices is (ms)."""

    def _because(self) -> str:
        return f"the time slice is over at {iso(self.until)}"


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnShareUsed(Spared):
    """Of other projects, and the job's own may take nothing back: it would be above its share."""

    code: ClassVar[str] = "own_share_used"
    project: str
    used: int
    share: int
    resource: str = "slots"

    def _because(self) -> str:
        used = units(self.used, self.resource)
        return f"project {self.project} uses {used} of its fair share {self.share}"


@dataclass(frozen=True, kw_only=True, slots=True)
class WithinShare(Spared):
    """Of another project that has no more than it deserves."""

    code: ClassVar[str] = "within_share"
    project: str
    used: int
    share: int
    quota: int
    resource: str = "slots"

    def _because(self) -> str:
        used = units(self.used, self.resource)
        return (
            f"project {self.project} uses {used} of its fair share {self.share} "
            f"(quota {self.quota})"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class WouldTurnBack(Spared):
    """The job's side would then be further above its share than theirs: they would take it back."""

    code: ClassVar[str] = "would_turn_back"
    project: str

    def _because(self) -> str:
        return f"project {self.project} would then be the one to take back"


@dataclass(frozen=True, kw_only=True, slots=True)
class WouldNotHelp(Spared):
    """They could be stopped, but not even all of them together would let the job start."""

    code: ClassVar[str] = "would_not_help"
    missing: int
    """Slots that are missing there."""

    def _because(self) -> str:
        return f"stopping that would not let it start ({units(self.missing, 'slots')} missing)"


@dataclass(frozen=True, kw_only=True, slots=True)
class Reservation(Reason):
    """Slots of one of the job's pools that are kept for one job."""

    pool: str
    job: str
    """Whom they are kept for."""
    project: str
    slots: int
    """How many that job is to have."""

    def sentence(self) -> str:
        whose = f"{self.job} of project {self.project}" if self.project else self.job
        verb = "is" if self.slots == 1 else "are"
        return f"{units(self.slots, 'slots')} of pool {self.pool} {verb} {self._kept(whose)}"

    def _kept(self, whose: str) -> str:
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True, slots=True)
class Owed(Reservation):
    """A claim: others were stopped for it."""

    code: ClassVar[str] = "owed"

    def _kept(self, whose: str) -> str:
        return f"owed to {whose}, which others were stopped for"


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptForAMove(Reservation):
    """What moves here from another pool has its room already."""

    code: ClassVar[str] = "kept_for_a_move"

    def _kept(self, whose: str) -> str:
        return f"kept for {whose}, which moves there"


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldAhead(Reservation):
    """Somebody ahead in the order waits for slots that are coming free."""

    code: ClassVar[str] = "held_ahead"

    def _kept(self, whose: str) -> str:
        return f"held for {whose}, whose turn comes first"


@dataclass(frozen=True, kw_only=True, slots=True)
class Drains(Reservation):
    """The pool drains for somebody who has waited longer than `reserve_after`."""

    code: ClassVar[str] = "drains"

    def _kept(self, whose: str) -> str:
        return f"kept free for {whose}: nothing behind it starts there"


class TimeCause(StrEnum):
    """What happens at a moment that is known."""

    BACKOFF = "backoff"
    MIN_RUNTIME = "min_runtime"
    POOL_BACKOFF = "pool_backoff"
    PROBE = "probe"
    RIGHTS = "rights"
    LEARNED_LIMIT = "learned_limit"
    RESERVE_AFTER = "reserve_after"
    TIME_SLICE = "time_slice"


_HAPPENS = {
    TimeCause.BACKOFF: "it waits for slots again",
    TimeCause.MIN_RUNTIME: "something in pool {pool} comes to the end of its minimum runtime",
    TimeCause.POOL_BACKOFF: "pool {pool} is tried again",
    TimeCause.PROBE: "pool {pool} starts another job, whatever becomes of the one that tries it",
    TimeCause.RIGHTS: "the right that it lacks in pool {pool} is tried again",
    TimeCause.LEARNED_LIMIT: "pool {pool} is used in full again",
    TimeCause.RESERVE_AFTER: "pool {pool} drains for it",
    TimeCause.TIME_SLICE: "a time slice in pool {pool} is over",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownTime(Reason):
    """A moment from which on, with nothing else happening, things may be different for the job."""

    code: ClassVar[str] = "known_time"
    at: int
    """Milliseconds since the epoch."""
    cause: TimeCause
    pool: str = ""
    """Empty: not of a pool."""

    def sentence(self) -> str:
        return f"at {iso(self.at)} {_HAPPENS[self.cause].format(pool=self.pool)}"
