"""The data that crosses the border of the store."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Protocol

from slotq_core.errors import Conflict, NameTaken, Refused
from slotq_core.lifecycle import copied
from slotq_core.model.attempts import Attempt
from slotq_core.model.callers import NO_LIMITS, NOTHING_USED, Limits, QueueUse
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job
from slotq_core.model.nodes import Node
from slotq_core.model.notices import Callback
from slotq_core.model.pools import Pool, PoolHealth, WarmSlot
from slotq_core.model.projects import NO_PAST_USE, NOTHING_SPENT, PastUse, Spending
from slotq_core.model.sharing import NO_SHARING, Sharing
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.lines import line_of, users_matter
from slotq_core.policy.plan import Answers, nothing_more
from slotq_core.ports.training import Request
from slotq_core.ports.usage import NO_MONTH, MonthSum
from slotq_core.privacy.identity import People


@dataclass(frozen=True, kw_only=True, slots=True)
class Ledger:
    """A pool's capacity ledger, as last committed. Its version rises with each decision."""

    version: int = 0
    used: Demand = field(default_factory=Demand)
    warm: tuple[WarmSlot, ...] = ()
    """The pool's instances that SageMaker keeps for matching jobs. They are no use."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark:
    """The progress of a reading of the jobs of one state."""

    entry_time: int
    """The entry time (ms) of the last job read."""
    name: str = ""
    """Its name; empty: every job that entered at this moment is read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Poison:
    """A stored item that cannot be read. It stops nothing else."""

    key: str
    """The item's key, in the store's own notation."""
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Ahead:
    """How many waiting jobs share a pool with a job and come before it."""

    jobs: int
    or_more: bool = False
    """True if counting ended early: `jobs` is a lower bound."""


def nothing_ahead(_job: Job) -> Ahead:
    """For worlds that are not asked for places."""
    return Ahead(jobs=0)


def nothing_to_keep() -> None:
    """For a store whose loads are cheap."""


class PartsKind(StrEnum):
    """How to finish a decision in parts whose handler has died."""

    START = "start"
    """All of its jobs start, or none: if one cannot any more, the decision turns to `UNDO`."""
    FINISH = "finish"
    """Each of its jobs changes that still can: an eviction, a rollback, a failed attempt."""
    UNDO = "undo"
    """Its jobs that have started go back to their places."""


@dataclass(frozen=True, kw_only=True, slots=True)
class InParts:
    """A decision about a group that one transaction cannot hold.

    Its record is kept from the first part to the last. Every load finds the record, and the loading
    handler finishes the decision before deciding anything else. Only one such decision exists at a
    time.
    """

    number: int
    """The identity of the decision: the number of decisions about groups before it."""
    kind: PartsKind
    steps: tuple[tuple[Job, Job], ...]
    """Each job before the decision, as read, and after it; at least one."""

    @property
    def jobs(self) -> frozenset[str]:
        """The names of the jobs that it changes."""
        return frozenset(before.name for before, _ in self.steps)

    @property
    def at(self) -> int:
        """When it was made (ms): some of its jobs start or stop with it."""
        return max(after.changed_at for _, after in self.steps)


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """One transaction of a decision in parts. Committed only while the decision's record is there,
    with this kind."""

    of: InParts
    opens: bool = False
    """Whether this is the first part, which keeps the record."""
    closes: bool = False
    """Whether this is the last part, which removes the record."""


@dataclass(frozen=True, kw_only=True, slots=True)
class World:
    """The input of one pass: the policy's snapshot, and the versions that its commits depend on."""

    snapshot: Snapshot
    ledgers: Mapping[str, Ledger]
    """By pool name, for every pool of the snapshot."""
    group_decisions: int = 0
    """How many decisions about groups had been committed before this load read anything else."""
    in_parts: InParts | None = None
    """A decision to finish before any other."""
    undecidable: str = ""
    """Why nothing may be decided at all, although everything else goes on; usually empty."""
    unfinished: frozenset[str] = frozenset()
    """The groups whose submission is not finished. Their jobs are not in the snapshot."""
    poison: tuple[Poison, ...] = ()
    """Items that could not be read. Slots that they may hold count as held."""
    ended: tuple[Job, ...] = ()
    """Ended jobs whose dependents are still to be notified (`Job.followed`)."""
    more: Answers = field(default=nothing_more, compare=False)
    """Reads further jobs of a line if the snapshot has only the first ones. Unreadable items become
    part of the next load's `poison`."""
    ahead_of: Callable[[Job], Ahead] = field(default=nothing_ahead, compare=False)
    """Counts the waiting jobs that share a pool with this one and come before it in the order.

    Counts MOST_AHEAD at most, then one more for all the rest; a store may also end early if many
    lines would have to be counted. For people: not strongly consistent. May raise Unavailable."""
    keep_bounds: Callable[[], None] = field(default=nothing_to_keep, compare=False)
    """Records the lines' lower bounds from this load, so that later loads read less. For a pass,
    after its decisions. May raise Unavailable; nothing depends on it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One disagreement within the stored data, or with SageMaker."""

    kind: str
    """Stable and for programs: `ended_unseen`, `orphan`, `stale_intent`, `ledger`, `copy` …"""
    subject: str
    """The job, training job, pool or execution role."""
    text: str
    """The fault, and its repair."""
    mended: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """One job's part of a transaction: the job as read and the job to write."""

    before: Job
    after: Job
    ended: Attempt | None = None
    """The attempt that this change ends, for the history."""
    request: Request | None = None
    """The new request; None: the request stays."""
    health: PoolHealth | None = None
    """The health of the live attempt's pool, which the transaction stores as well; None: it stays.
    Unconditional, as in `Health.set`."""

    @property
    def committed(self) -> Job:
        """The job as the change leaves it, with the next version."""
        return copied(self.after, version=self.before.version + 1)

    @property
    def takes_back(self) -> bool:
        """Whether this change takes the live attempt back, as if it had never existed."""
        return self.before.attempt is not None and self.after.attempts < self.before.attempts

    @property
    def comes_to_other_line(self) -> bool:
        """Whether the job is in no line after the change, but will later enter another line than
        before the change."""
        before, after = self.before, self.after
        if after.waits or not after.comes_to_line:
            return False
        return not before.comes_to_line or line_of(after) != line_of(before)


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeChange:
    """One node's part of a transaction: the node as read and the node to write. Jobs that come to
    the node and leave it are no change of the node itself: the jobs' changes say so."""

    before: Node | None
    """None: the node starts."""
    after: Node | None
    """None: the node's training job has ended."""
    empty: bool = False
    """Whether the change requires that no job is on the node."""

    @property
    def starts(self) -> bool:
        return self.before is None

    @property
    def ends(self) -> bool:
        return self.after is None

    @property
    def node(self) -> Node:
        """The node after the change, or before its end."""
        found = self.after or self.before
        assert found is not None
        return found

    @property
    def committed(self) -> Node | None:
        """The node as the change leaves it, with the next version."""
        version = self.before.version if self.before else 0
        return replace(self.after, version=version + 1) if self.after else None


@dataclass(frozen=True, kw_only=True, slots=True)
class WarmChange:
    """One warm slot's part of a transaction: the slot as read and the slot to write. The end of an
    attempt that leaves one is no such change: the attempt says so."""

    before: WarmSlot | None
    """None: an attempt leaves it."""
    after: WarmSlot | None
    """None: it is over."""
    ended_at: int | None = None
    """When its instances were kept no more (ms), for the record of use; None: they still are, or
    nobody pays for that time."""
    recorded_at: int = 0
    """When that is recorded (ms)."""

    @property
    def slot(self) -> WarmSlot:
        """The slot after the change, or before its end."""
        found = self.after or self.before
        assert found is not None
        return found

    @property
    def committed(self) -> WarmSlot | None:
        """The slot as the change leaves it, with the next version."""
        version = self.before.version if self.before else 0
        return copied(self.after, version=version + 1) if self.after else None


class Witness(Protocol):
    """Observes the commits of a store. Never raises, because the change is committed."""

    def submitted(self, job: Job) -> None:
        """Observe a new job."""

    def committed(self, change: Change, after: Job) -> None:
        """Observe a change of a job, and the committed job."""


class Unwatched:
    """The witness of a store that is not observed."""

    def submitted(self, _job: Job) -> None: ...

    def committed(self, _change: Change, _after: Job) -> None: ...


class StoredAlready(NameTaken):
    """A job of that name is stored. `job`: the stored job; None if its record cannot be read."""

    def __init__(self, name: str, job: Job | None = None) -> None:
        super().__init__(f"a job named {name} exists already", field="TrainingJobName")
        self.job = job


@dataclass(frozen=True, kw_only=True, slots=True)
class NewJob:
    """A job to be stored."""

    job: Job
    request: Request
    watched: Sequence[str] = ()
    """Of each group that it waits for, a member whose end is handed on to it."""
    callback: Callback | None = None
    """Who waits for its end; stored with it."""


class NoSuchLine(Conflict):
    """A job would open a line, and may not. Nothing was stored."""


class AwaitedEnded(Refused):
    """A new job comes after a job, or a watched member of a group, that has ended meanwhile or
    would not notify it."""

    def __init__(self, name: str) -> None:
        super().__init__(f"a job that {name} comes after has ended meanwhile; submit it again")


MOST_AHEAD = 1000
"""The most jobs that are counted one by one for a job's place."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Configuration:
    """The configuration at one moment."""

    pools: tuple[Pool, ...]
    """The pools, in their configured order."""
    revision: int
    """Rises with each change; 0: never configured."""
    limits: Limits = NO_LIMITS
    sharing: Sharing = NO_SHARING
    use: QueueUse = NOTHING_USED
    """The use of all callers at the last audit. This field and the next ones are read with the
    configuration but are not part of it."""
    month_sum: MonthSum = NO_MONTH
    """The spending of projects with a budget, as of the last tick."""
    spent: Spending = NOTHING_SPENT
    """The same spending for the policy, with the warnings."""
    past_use: PastUse = NO_PAST_USE
    """The projects' past use, as of the last hour."""
    past_use_version: int = 0
    """Rises with each change of `past_use`; 0: nothing is stored."""
    group_decisions: int = 0
    """How many decisions about groups have been committed."""
    in_parts: bool = False
    """Whether one of them may be unfinished."""
    changing: bool = False
    """Whether somebody is changing the configuration, or has died over it."""

    @property
    def by_user(self) -> bool:
        """Whether each line has one user, so that new jobs wait in lines of their users."""
        return users_matter(self.pools, apart=self.sharing.keeps_users_apart)

    @property
    def people(self) -> People:
        """The mapping of callers to people."""
        return People(session_roles=self.sharing.session_roles)


@dataclass(frozen=True, kw_only=True, slots=True)
class ConfigurationChange:
    """One change of the configuration, for the record."""

    revision: int
    """The revision that the change made."""
    who: str
    """The signer of the request, or the setting that the change came from."""
    at: int
    before: tuple[Pool, ...]
    after: tuple[Pool, ...]
    limits_before: Limits = NO_LIMITS
    limits_after: Limits = NO_LIMITS
    sharing: tuple[Sharing, Sharing] | None = None
    """The sharing before and after; None: unchanged."""
