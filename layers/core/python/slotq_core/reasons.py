"""Why a job waits: a closed set of typed reasons, each with its numbers.

The policy produces them, `wire` carries them, people read `sentence`. Floor 1, because both the
policy and the client speak of them.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from types import ModuleType
from typing import ClassVar

from slotq_core.moments import iso

Number = str | int | tuple[str, ...] | None
"""What a reason says of itself, by field."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reason:
    """Base of all reasons. `code` is stable and for programs."""

    code: ClassVar[str]

    def sentence(self) -> str:
        """One sentence for people, with the numbers in it."""
        raise NotImplementedError

    def numbers(self) -> dict[str, Number]:
        """The fields by name, for JSON."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


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
        lead = f"needs {_slots(self.needed)}; pool {self.pool} has {self.free} free"
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
            f"{_slots(self.needed)}, {self.free} free now, {self.coming} coming free"
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
            return f"needs {_slots(self.needed)}; {free} are held for {self.holder}"
        return (
            f"needs {_slots(self.needed)}; project {self.project} uses {_slots(self.used)}, quota "
            f"{self.quota}; {free} belong to project {self.holder_project} ({self.holder})"
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
            f"{_slots(self.needed)}; {self.free} free so far"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class LimitReached(Reason):
    """Its project, or its department, may not hold more."""

    code: ClassVar[str] = "limit_reached"
    owner: str
    needed: int
    used: int
    limit: int
    resource: str = "slots"
    """What the numbers count."""

    def sentence(self) -> str:
        return (
            f"needs {units(self.needed, self.resource)}; {self.owner} holds {self.used} of its "
            f"limit {self.limit}"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class UserLimitReached(Reason):
    """Its user may not hold more slots of that class there."""

    code: ClassVar[str] = "user_limit_reached"
    pool: str
    needed: int
    user: str
    priority_class: str
    """Of an AUTO job: the class in which its user has the most left."""
    used: int
    limit: int

    def sentence(self) -> str:
        return (
            f"needs {_slots(self.needed)}; user {self.user} holds {self.used} of its limit "
            f"{self.limit} for {self.priority_class} in pool {self.pool}"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class ClassNotAllowed(Reason):
    """Its user may hold no slots of its class there any more."""

    code: ClassVar[str] = "class_not_allowed"
    pool: str
    user: str
    priority_class: str
    """Empty: its priority is a number that is no class's value."""

    def sentence(self) -> str:
        its = self.priority_class or "a number that is no class's value"
        return f"user {self.user} may hold no slots for {its} in pool {self.pool}"


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
            f"needs {_slots(self.needed)}; pool {self.pool} has {self.free} free, and the first "
            f"time slice there that ends for it does so at {iso(self.until)}"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class QuotaForFixed(Reason):
    """What cannot be evicted has to stay within the quota."""

    code: ClassVar[str] = "quota_for_non_preemptible"
    owner: str
    needed: int
    used: int
    quota: int
    resource: str = "slots"
    """What the numbers count."""

    def sentence(self) -> str:
        return (
            f"needs {units(self.needed, self.resource)} that cannot be evicted, which "
            f"{self.owner} has within its quota only: {self.used} of {self.quota} used"
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
class JobLimitReached(Reason):
    """The scheduler's `max_jobs` hold slots already: nothing more is tried."""

    code: ClassVar[str] = "job_limit_reached"
    active: int
    limit: int

    def sentence(self) -> str:
        return (
            f"at most {_jobs(self.limit)} may hold slots at once; {self.active} hold them or are "
            "owed them"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class SweepLimit(Reason):
    """As many jobs of its sweep as may hold slots already."""

    code: ClassVar[str] = "sweep_limit"
    group: str
    active: int
    limit: int

    def sentence(self) -> str:
        return (
            f"at most {_jobs(self.limit)} of sweep {self.group} may hold slots at once; "
            f"{self.active} hold them or are owed them"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolBacksOff(Reason):
    """SageMaker had no capacity for the pool lately; nothing starts there for now."""

    code: ClassVar[str] = "pool_backs_off"
    pool: str
    until: int
    cause: str

    def sentence(self) -> str:
        return f"pool {self.pool} is tried again at {iso(self.until)}: {self.cause}"


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolIsProbed(Reason):
    """After a capacity error one job at a time tries whether the pool is well again."""

    code: ClassVar[str] = "pool_is_probed"
    pool: str
    needed: int
    probe: str
    """The job that tries."""

    def sentence(self) -> str:
        return (
            f"needs {_slots(self.needed)}; after a capacity error pool {self.pool} starts one job "
            f"at a time, and {self.probe} is starting"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolClosed(Reason):
    """An operator has paused or drained the pool."""

    code: ClassVar[str] = "pool_closed"
    pool: str
    state: str
    """`paused` or `drained`."""

    def sentence(self) -> str:
        return f"pool {self.pool} is {self.state}: nothing starts there"


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolNotOpen(Reason):
    """The pool is for projects that have a quota there, and its own has none."""

    code: ClassVar[str] = "pool_not_open"
    pool: str
    project: str

    def sentence(self) -> str:
        return (
            f"pool {self.pool} is open only to projects with a quota there, and project "
            f"{self.project} has none"
        )


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
class GangIncomplete(Reason):
    """Too few members of its gang wait: others are being stopped, back off, or are yet to come."""

    code: ClassVar[str] = "gang_incomplete"
    group: str
    needed: int
    waiting: int
    missing: tuple[str, ...]
    """Mandatory members that are not among them."""

    def sentence(self) -> str:
        text = f"gang {self.group} starts with {self.needed} jobs at once; {self.waiting} wait"
        return f"{text}, without {', '.join(self.missing)}" if self.missing else text


@dataclass(frozen=True, kw_only=True, slots=True)
class GangBlocked(Reason):
    """Its pools have no room for enough of its gang at once."""

    code: ClassVar[str] = "gang_blocked"
    group: str
    needed: int
    drains: str
    """The pool that is kept free for this job; empty: none."""

    def sentence(self) -> str:
        text = f"gang {self.group} needs room for {self.needed} of its jobs at once"
        return f"{text}; pool {self.drains} is kept free for it" if self.drains else text


@dataclass(frozen=True, kw_only=True, slots=True)
class EndangersItsGang(Reason):
    """Its gang runs without it, and with it all of the gang could be stopped for more jobs."""

    code: ClassVar[str] = "endangers_its_gang"
    group: str
    pool: str
    needed: int
    free: int
    counts_as: str
    """The class that it would count in, lower than its gang; empty: it would bring its project
    beyond its fair share."""

    def sentence(self) -> str:
        may = f"needs {_slots(self.needed)} and pool {self.pool} has {self.free} free; but with it"
        all_of_it = f"all of gang {self.group}, which runs without it, could be"
        if self.counts_as:
            return f"{may} {all_of_it} evicted for more jobs: it would count as {self.counts_as}"
        return f"{may} {all_of_it} reclaimed: its project would be beyond its fair share"


@dataclass(frozen=True, kw_only=True, slots=True)
class NeedsSeveralPools(Reason):
    """The pools that it runs over have no room for all of its parts at once."""

    code: ClassVar[str] = "needs_several_pools"
    needed: tuple[tuple[str, int], ...]
    """Slots by pool."""
    drains: str
    """A pool that is kept free for it; empty: none."""

    def sentence(self) -> str:
        parts = " and ".join(f"{_slots(slots)} in pool {pool}" for pool, slots in self.needed)
        kept = f"; pool {self.drains} is kept free for it" if self.drains else ""
        return f"needs {parts} at the same time{kept}"


@dataclass(frozen=True, kw_only=True, slots=True)
class NextPass(Reason):
    """Nothing keeps it: it starts with the next pass, which is on its way."""

    code: ClassVar[str] = "next_pass"
    pool: str

    def sentence(self) -> str:
        return f"starts in pool {self.pool} with the next pass"


def _slots(n: int) -> str:
    return units(n, "slots")


def _jobs(n: int) -> str:
    return units(n, "jobs")


def units(n: int, resource: str) -> str:
    """`1 slot`, `2 slots`."""
    return f"{n} {resource.removesuffix('s') if n == 1 else resource}"


def codes(module: ModuleType, base: type[Reason]) -> tuple[str, ...]:
    """Of all reasons of that kind in a module, sorted."""
    kinds = [kind for kind in vars(module).values() if isinstance(kind, type)]
    found = {kind.code for kind in kinds if issubclass(kind, base) and hasattr(kind, "code")}
    return tuple(sorted(found))
