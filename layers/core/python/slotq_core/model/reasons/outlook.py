"""A waiting job's outlook: what could be evicted, what is spared, what is reserved, and the
earliest known time.

Every entry is typed as reasons are: a code and numbers for programs, a sentence for people. An
outlook examines everything that holds slots in the job's pools, so plans make it only on request
for one job.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import ClassVar

from slotq_core.gpu_amounts import WHOLE, Gpus, in_gpus
from slotq_core.model.reasons import Reason, units
from slotq_core.model.reasons.reason import WITHIN_SHARES_START, share_used
from slotq_core.timestamps import iso, lasting

NAMED = 5
"""The most jobs of a group that are named; the rest are counted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Outlook:
    """The slots that one waiting job could get, and when. Empty if the plan did not try the job."""

    rooms: tuple[Room, ...] = ()
    """One for each of the job's pools, in the job's order."""
    spared: tuple[Spared, ...] = ()
    """Everything that holds slots in those pools, grouped by why it is not stopped for the job."""
    reserved: tuple[Reservation, ...] = ()
    """Slots kept in those pools, for this job or for others."""
    times: tuple[KnownTime, ...] = ()
    """Moments at which time alone may change something for the job, the earliest first."""
    order: tuple[UsedByUser, ...] = ()
    """What its user has used, if that decides which of the project's jobs goes first."""

    @property
    def earliest(self) -> int | None:
        """The earliest known time (ms); None: it depends on other jobs."""
        return self.times[0].at if self.times else None

    def with_times(self, *times: KnownTime) -> Outlook:
        """This outlook with more times, in order."""
        every = sorted((*self.times, *times), key=lambda time: (time.at, time.pool, time.cause))
        return replace(self, times=tuple(every))


@dataclass(frozen=True, kw_only=True, slots=True)
class Room(Reason):
    """A pool's free and coming slots when the job's turn comes."""

    code: ClassVar[str] = "room"
    pool: str
    needed: int | float
    free: int | float
    coming: int | float
    """Amounts that stopping jobs hold and that no earlier job is promised."""
    missing: int | float
    """The amount that others would still have to give up."""
    resource: str = "slots"
    """The resource that the numbers count: the one most clearly short, slots before others."""

    def sentence(self) -> str:
        return (
            f"pool {self.pool} has {self.free} free and {self.coming} coming free of the "
            f"{units(self.needed, self.resource)} that it needs; {self.missing} missing"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Spared(Reason):
    """Jobs in one of the job's pools that are all spared for the same cause."""

    pool: str
    jobs: tuple[str, ...]
    """The first `NAMED` names."""
    count: int
    slots: int
    """Slots that these jobs hold in the pool, nodes included."""
    gpus: Gpus = 0
    """The GPUs that these jobs hold on nodes of the asking job's tenant; `slots` is then 0."""

    def sentence(self) -> str:
        named, more = ", ".join(self.jobs), self.count - len(self.jobs)
        who = f"{named} and {more} more" if more else named
        verb = "holds" if self.count == 1 else "hold"
        held = f"{units(self.slots, 'slots')} of pool {self.pool}"
        if self.gpus:
            held = f"{in_gpus(self.gpus)} on nodes of pool {self.pool}"
        return f"{who} {verb} {held}: {self._because()}"

    def _because(self) -> str:
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True, slots=True)
class NoLowerRank(Spared):
    """Jobs of the same project and of equal or higher priority."""

    code: ClassVar[str] = "no_lower_rank"

    def _because(self) -> str:
        return "of equal or higher priority"


@dataclass(frozen=True, kw_only=True, slots=True)
class NeverEvicted(Spared):
    """Jobs that are not preemptible, or of a class that is never evicted."""

    code: ClassVar[str] = "not_preemptible"

    def _because(self) -> str:
        return "not preemptible"


@dataclass(frozen=True, kw_only=True, slots=True)
class WithinQuota(Spared):
    """Semi-preemptible jobs that are within their project's quota."""

    code: ClassVar[str] = "within_quota"

    def _because(self) -> str:
        return "semi-preemptible, and within its project's quota"


@dataclass(frozen=True, kw_only=True, slots=True)
class StopsAlready(Spared):
    """Jobs that are already stopping."""

    code: ClassVar[str] = "already_stopping"

    def _because(self) -> str:
        return "already stopping"


@dataclass(frozen=True, kw_only=True, slots=True)
class StartUnanswered(Spared):
    """Jobs whose start SageMaker has not answered. A stop could overtake the start."""

    code: ClassVar[str] = "start_unanswered"

    def _because(self) -> str:
        return "SageMaker has not confirmed the start yet"


@dataclass(frozen=True, kw_only=True, slots=True)
class InMinRuntime(Spared):
    """Jobs that a `min_runtime` still protects."""

    code: ClassVar[str] = "in_min_runtime"
    until: int | None
    """When the first protection ends (ms); None: none of the jobs has begun to run."""

    def _because(self) -> str:
        when = iso(self.until) if self.until is not None else "some time after it starts"
        return f"protected by the minimum runtime until {when}"


@dataclass(frozen=True, kw_only=True, slots=True)
class OfTheSameUser(Spared):
    """Jobs of the same project, user and rank, where others of equal rank would be moved or would
    yield. They are not interrupted for each other."""

    code: ClassVar[str] = "same_user"

    def _because(self) -> str:
        return "of the same user and rank"


@dataclass(frozen=True, kw_only=True, slots=True)
class GangStays(Spared):
    """A gang with a member that may not be stopped. Gangs are evicted whole."""

    code: ClassVar[str] = "gang_stays"
    group: str

    def _because(self) -> str:
        return f"gang {self.group} is evicted whole, and some of its jobs may not be evicted"


@dataclass(frozen=True, kw_only=True, slots=True)
class SliceNotOver(Spared):
    """Jobs of equal rank and of another user, whose time slice is not over."""

    code: ClassVar[str] = "slice_not_over"
    until: int
    """When the first time slice ends (ms)."""

    def _because(self) -> str:
        return f"the time slice ends at {iso(self.until)}"


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnShareUsed(Spared):
    """Jobs of other projects. The waiting job's project or department may not reclaim: it would
    exceed its fair share."""

    code: ClassVar[str] = "own_share_used"
    project: str
    """The project or department."""
    used: int | float
    share: int | float
    resource: str = "slots"

    def _because(self) -> str:
        return share_used(self.project, self.used, self.share, self.resource)


@dataclass(frozen=True, kw_only=True, slots=True)
class WithinShare(Spared):
    """Jobs of another project that uses no more than its fair share."""

    code: ClassVar[str] = "within_share"
    project: str
    used: int | float
    share: int | float
    quota: int | float
    resource: str = "slots"

    def _because(self) -> str:
        used = units(self.used, self.resource)
        return (
            f"project {self.project} uses {used} of its fair share {self.share} "
            f"(quota {self.quota})"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class PastUseWaits(Spared):
    """Jobs of another project, which gives them only because of past use, and not yet."""

    code: ClassVar[str] = "past_use_waits"
    project: str
    """The project, or its department."""
    used: int | float
    share: int | float
    by_weights: int | float
    """The fair share without past use."""
    resource: str = "slots"

    def _because(self) -> str:
        return (
            f"{self.project} uses {units(self.used, self.resource)}; past use moves its fair share "
            f"from {self.by_weights} to {self.share}, which evicts jobs after an hour of running, "
            "for jobs that have waited for an hour, and not for small differences"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class UsedByUser(Reason):
    """The past use of the job's user, which decides its place among jobs of equal rank."""

    code: ClassVar[str] = "used_by_user"
    user: str
    project: str
    """Empty: the queue has no projects."""
    percent: float
    """The user's percentage of the past use of the project, or of the queue."""

    def sentence(self) -> str:
        whole = f"project {self.project}" if self.project else "the queue"
        return (
            f"{self.user} has {self.percent:g} % of the past use of {whole}: of jobs of equal "
            "rank, those of users who have used less go first"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class WouldNotHelp(Spared):
    """Jobs that could be stopped, but all of them together would not let the job start."""

    code: ClassVar[str] = "would_not_help"
    missing: int | float
    """Slots still missing in the pool, or GPUs on the node."""

    def _because(self) -> str:
        missing = units(self.missing, "GPUs" if self.gpus else "slots")
        return f"evicting all of it would not be enough ({missing} missing)"


@dataclass(frozen=True, kw_only=True, slots=True)
class OfAnotherProject(Spared):
    """Jobs of other projects on a node that projects share. Only single jobs take GPUs back."""

    code: ClassVar[str] = "other_project_on_node"

    def _because(self) -> str:
        return "of another project, and a gang takes no GPUs of nodes that projects share"


@dataclass(frozen=True, kw_only=True, slots=True)
class OfAnotherPerson(Spared):
    """Jobs of another person, on a node that takes the jobs of one person at a time."""

    code: ClassVar[str] = "other_person_on_node"

    def _because(self) -> str:
        return "of another person, and the node takes the jobs of one person at a time"


@dataclass(frozen=True, kw_only=True, slots=True)
class Reservation(Reason):
    """Slots that one of the job's pools keeps for a single job."""

    pool: str
    job: str
    """The job that the slots are kept for."""
    project: str
    slots: int
    """Slots that the job will get."""

    def sentence(self) -> str:
        job = f"{self.job} of project {self.project}" if self.project else self.job
        verb = "is" if self.slots == 1 else "are"
        return f"{units(self.slots, 'slots')} of pool {self.pool} {verb} {self._kept(job)}"

    def _kept(self, job: str) -> str:
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True, slots=True)
class Owed(Reservation):
    """A claim: others were stopped for the job."""

    code: ClassVar[str] = "owed"

    def _kept(self, job: str) -> str:
        return f"owed to {job}: other jobs were stopped for it"


@dataclass(frozen=True, kw_only=True, slots=True)
class OnNode(Reservation):
    """GPUs of a node that the job has a claim to. `slots` is 0."""

    node: str
    gpus: Gpus
    slots: int = 0

    @property
    def _where(self) -> str:
        return f"node {self.node} of pool {self.pool}"


@dataclass(frozen=True, kw_only=True, slots=True)
class GpusOwed(OnNode):
    """A claim to GPUs of a node that is ready: others were stopped for the job."""

    code: ClassVar[str] = "gpus_owed"

    def sentence(self) -> str:
        verb = "is" if self.gpus == WHOLE else "are"
        return (
            f"{in_gpus(self.gpus)} of {self._where} {verb} owed to {self.job}: other jobs "
            "were stopped for it"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeStarts(OnNode):
    """A node that starts, with GPUs for the job."""

    code: ClassVar[str] = "node_starts"
    since: int
    """When the start began (ms)."""
    took: int | None = None
    """The longest start (ms) among the pool's nodes that have their instance, until they had it;
    None: none has."""

    def sentence(self) -> str:
        known = f"; starts there took up to {lasting(self.took)}" if self.took is not None else ""
        return (
            f"{self._where} has been starting for {self.job} since {iso(self.since)}, with "
            f"{in_gpus(self.gpus)} for it{known}"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptForAMove(Reservation):
    """Room for a job that moves here from another pool."""

    code: ClassVar[str] = "kept_for_a_move"

    def _kept(self, job: str) -> str:
        return f"kept for {job}, which is moving there"


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldAhead(Reservation):
    """Slots for a job earlier in the order that waits for slots coming free."""

    code: ClassVar[str] = "held_ahead"

    def _kept(self, job: str) -> str:
        return f"held for {job}, which is ahead in the order"


@dataclass(frozen=True, kw_only=True, slots=True)
class Drains(Reservation):
    """The pool drains for a job that has waited longer than `reserve_after`."""

    code: ClassVar[str] = "drains"
    held_back: str = ""
    """The project whose jobs the drain holds back, as in `reasons.Reserved.project`."""

    def _kept(self, job: str) -> str:
        of = f" of project {self.held_back}" if self.held_back else ""
        others = f"; {WITHIN_SHARES_START}" if self.held_back else ""
        return (
            f"reserved for {job}: nothing{of} behind it starts there, except what cannot delay it"
            f"{others}"
        )


class TimeCause(StrEnum):
    """The event at a known time."""

    BACKOFF = "backoff"
    BUDGET = "budget"
    MIN_RUNTIME = "min_runtime"
    POOL_BACKOFF = "pool_backoff"
    OTHER_QUOTA = "other_quota"
    PROBE = "probe"
    RIGHTS = "rights"
    LEARNED_LIMIT = "learned_limit"
    RESERVE_AFTER = "reserve_after"
    TIME_SLICE = "time_slice"
    HOURS = "hours"
    RESERVATION = "reservation"


_HAPPENS = {
    TimeCause.BACKOFF: "it waits for slots again",
    TimeCause.BUDGET: "the budget of its project starts again",
    TimeCause.MIN_RUNTIME: "a minimum runtime in pool {pool} ends",
    TimeCause.POOL_BACKOFF: "pool {pool} is tried again",
    TimeCause.OTHER_QUOTA: "it may evict others in pool {pool} again",
    TimeCause.PROBE: "pool {pool} starts another job, even if its probe has not ended",
    TimeCause.RIGHTS: "the missing right in pool {pool} is tried again",
    TimeCause.LEARNED_LIMIT: "pool {pool} is used in full again",
    TimeCause.RESERVE_AFTER: "pool {pool} drains for it",
    TimeCause.TIME_SLICE: "a time slice in pool {pool} ends",
    TimeCause.HOURS: "pool {pool} changes its size",
    TimeCause.RESERVATION: "a reservation in pool {pool} begins or ends",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownTime(Reason):
    """A moment after which time alone may change the job's chances."""

    code: ClassVar[str] = "known_time"
    at: int
    """Milliseconds since the epoch."""
    cause: TimeCause
    pool: str = ""
    """The pool's name; empty: the event belongs to no pool."""

    def sentence(self) -> str:
        return f"at {iso(self.at)} {_HAPPENS[self.cause].format(pool=self.pool)}"
