"""The words of SlotQ as data: frozen, keyword-only, without behaviour beyond arithmetic.

Every time is a whole number of milliseconds since the epoch (in a simulation: since its start), and
every duration a whole number of milliseconds, so that equal moments compare equal on every path.
Seconds and ISO 8601 exist only at the edges (`wire`, the adapters, the scenario loader).
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

__all__ = [
    "ACTIVE_STATES",
    "AUTO",
    "AUTO_VALUE",
    "EVERYWHERE",
    "HEALTHY",
    "TERMINAL_STATES",
    "WAITING_STATES",
    "Amounts",
    "Attempt",
    "AttemptOutcome",
    "Claim",
    "Demand",
    "Department",
    "Fairness",
    "Group",
    "Job",
    "JobState",
    "Limits",
    "Pool",
    "PoolHealth",
    "PoolState",
    "PriorityClass",
    "Project",
    "SchedulerSettings",
    "Snapshot",
    "StopCause",
    "StopOrder",
    "Submission",
    "User",
    "UserGroup",
    "UserLimits",
    "Workload",
    "Yielded",
]


class JobState(StrEnum):
    """Where a job stands. The legal moves between these are the table in `lifecycle`."""

    PENDING = "pending"
    """Waits; has never run."""
    PREEMPTED = "preempted"
    """Ran, was evicted, waits again at its old place."""
    BACKOFF = "backoff"
    """Waits for a time (`Job.not_before`) before it waits for slots."""
    HELD = "held"
    """Its user does not want it to start until it is released. It keeps its entry time."""
    STARTING = "starting"
    """Holds slots; its training job is being created or provisioned."""
    RUNNING = "running"
    STOPPING = "stopping"
    """Still holds its slots: they come free with the attempt's terminal status, never before."""
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    STOPPED = "stopped"
    """Somebody stopped its training job outside the queue."""


WAITING_STATES = frozenset({JobState.PENDING, JobState.PREEMPTED})
ACTIVE_STATES = frozenset({JobState.STARTING, JobState.RUNNING, JobState.STOPPING})
TERMINAL_STATES = frozenset(
    {JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED, JobState.STOPPED}
)


class Demand(Mapping[str, int]):
    """What a job needs in the pool it runs in, or what a pool has: a small named vector.

    `slots` is always there; other names (`gpus`, a licence) only where a pool declares them.
    Amounts are whole and may be negative only in differences. Immutable and hashable; a name that
    is absent counts as 0.
    """

    __slots__ = ("_amounts", "_hash")
    _amounts: dict[str, int]
    _hash: int
    """There once it has been asked for: the demand of a waiting job is, in each plan."""

    def __init__(self, amounts: Mapping[str, int] | None = None, /, **named: int) -> None:
        merged = {**(amounts or {}), **named}
        object.__setattr__(
            self, "_amounts", {name: merged[name] for name in sorted(merged) if merged[name]}
        )

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a Demand is immutable")

    @property
    def slots(self) -> int:
        return self._amounts.get("slots", 0)

    def __getitem__(self, name: str) -> int:
        return self._amounts.get(name, 0)

    def __contains__(self, name: object) -> bool:
        return name in self._amounts

    def __iter__(self) -> Iterator[str]:
        return iter(self._amounts)

    def __len__(self) -> int:
        return len(self._amounts)

    def items(self) -> ItemsView[str, int]:
        return self._amounts.items()

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            object.__setattr__(self, "_hash", hash(tuple(self._amounts.items())))
            return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Demand) and self._amounts == other._amounts

    def __add__(self, other: Demand) -> Demand:
        found = self._amounts.copy()
        for name, amount in other._amounts.items():
            found[name] = found.get(name, 0) + amount
        return Demand._of(found)

    def __sub__(self, other: Demand) -> Demand:
        found = self._amounts.copy()
        for name, amount in other._amounts.items():
            found[name] = found.get(name, 0) - amount
        return Demand._of(found)

    def within(self, room: Demand) -> bool:
        """Whether every amount asked for here is there in `room`."""
        there = room._amounts
        for name, amount in self._amounts.items():  # noqa: SIM110 `all` would take twice as long
            if amount > there.get(name, 0):
                return False
        return True

    @classmethod
    def total(cls, demands: Iterable[Demand]) -> Demand:
        """The sum of many, quicker than to add one to the other."""
        found: dict[str, int] = {}
        for demand in demands:
            for name, amount in demand.items():
                found[name] = found.get(name, 0) + amount
        return cls(found)

    @classmethod
    def _of(cls, amounts: dict[str, int]) -> Demand:
        """`Demand(amounts)`, quicker: a plan adds very often, and nearly always there is but one
        name, so nothing to sort."""
        if len(amounts) > 1 or 0 in amounts.values():
            return cls(amounts)
        made = cls.__new__(cls)
        object.__setattr__(made, "_amounts", amounts)
        return made

    def __repr__(self) -> str:
        return "Demand(" + ", ".join(f"{k}={v}" for k, v in self._amounts.items()) + ")"


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolHealth:
    """Whether SageMaker has lately given the pool what it is configured to have.

    After a capacity error the pool backs off until `not_before`; then one job at a time probes it,
    until one of its training jobs gets its instances.
    """

    errors: int = 0
    """Capacity errors in a row; 0: healthy."""
    not_before: int | None = None
    """Nothing starts before (ms)."""
    learned: int | None = None
    """Slots that the account's service limit turned out to allow; None: nothing less than the
    pool's capacity."""
    learned_until: int | None = None
    """When the configured capacity is tried again (ms)."""
    message: str = ""
    """SageMaker's last word on it."""


HEALTHY = PoolHealth()


class PoolState(StrEnum):
    """What an operator has decided for a pool. Nothing is evicted for it: what runs goes on."""

    ACTIVE = "active"
    PAUSED = "paused"
    """Nothing starts for now. The pool counts as it did: in shares, and for claims in it."""
    DRAINED = "drained"
    """Nothing starts, and the pool counts as gone: it adds nothing to anybody's share."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pool:
    """Capacity that jobs can run on: one kind of instance in one region and account."""

    name: str
    instance_type: str
    """SageMaker's instance type, e.g. `ml.p5.48xlarge`."""
    capacity: Demand
    """What the pool has in all."""
    foreign: Demand = field(default_factory=Demand)
    """What training jobs outside the queue occupy, where the pool counts them."""
    reserve_after: int | None = None
    """How long a job that does not fit may be passed by others, from its entry on. 0: strict order;
    None: it may always be passed."""
    min_runtime: int = 0
    """How long an attempt in this pool is safe from eviction, from its start on."""
    max_min_runtime: int = 0
    """The most that a job's own `min_runtime` counts here."""
    pending_timeout: int | None = None
    """How long SageMaker may look for instances before the attempt is given up; None: for ever."""
    consolidate: bool = False
    """Whether what runs here may move to another pool that it accepts, for a job that starts by
    it."""
    count_foreign: bool = False
    """Whether training jobs outside the queue count against this pool."""
    open: bool = True
    """False: only projects that have a quota there may use it. Without projects it says nothing."""
    suspend_grace: int = 0
    """How long a job that others are to have the slots of is only asked to stop, before it is
    stopped (ms)."""
    time_slice: int | None = None
    """How long an attempt runs before it yields to a job of equal rank of another user who holds
    fewer slots (ms); None: for as long as it likes."""
    state: PoolState = PoolState.ACTIVE
    health: PoolHealth = field(default_factory=lambda: HEALTHY)
    """What the queue has learned of the pool; kept apart from its configuration."""

    @property
    def offers(self) -> Demand:
        """What the queue may count on in all, whatever the account allows for now."""
        return Demand() if self.state is PoolState.DRAINED else self.capacity - self.foreign

    def size(self, now: int) -> Demand:
        """What the queue may use in all: what the pool offers, and less of it while the account
        allows less."""
        learned = self.health.learned
        if learned is None or now >= (self.health.learned_until or 0):
            return self.offers
        if self.state is PoolState.DRAINED:
            return self.offers
        return self.offers - Demand(slots=max(0, self.capacity.slots - learned))


EVERYWHERE = ""
"""The scope of an amount that counts over all pools together; else a scope is a pool's name."""

Amounts = Mapping[str, Demand]
"""Amounts by scope. Either everything counts over all pools together, or pool by pool."""

Limits = Mapping[str, Mapping[str, int]]
"""Limits by scope, then by resource: what is not named has none, and 0 is one."""


class Fairness(StrEnum):
    """What a department may reclaim from another."""

    PROTECT_QUOTA = "protect_quota"
    """Nothing that a project runs within its own quota."""
    FULL = "full"
    """That too, from a department above its share by one below its own."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Department:
    """Projects that share a quota."""

    name: str
    quota: Amounts | None = None
    """What it deserves; None: the sum of its projects' quotas."""
    weight: int | None = None
    """Its part of the surplus; None: its quota."""
    limit: Limits = field(default_factory=dict)
    """What it may never exceed."""
    priority: int = 0
    over_quota: bool = True
    """False: its quota is its limit."""
    fairness: Fairness = Fairness.PROTECT_QUOTA
    """What this department may take from others."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Project:
    """Whose jobs share the slots with other projects' by quota and weight."""

    name: str
    department: str = ""
    """Its department's name; empty: none."""
    quota: Amounts = field(default_factory=dict)
    weight: int | None = None
    limit: Limits = field(default_factory=dict)
    priority: int = 0
    over_quota: bool = True
    min_runtime: int = 0
    """How long an attempt of this project is safe from eviction, from its start on (ms)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PriorityClass:
    """A named priority. It may end after some running time: then its jobs are of another class."""

    name: str
    value: int
    """The priority of its jobs."""
    demote_to: str = ""
    """The class that its jobs come into after `demote_after`; empty: never."""
    demote_after: int = 0
    """How much running time, over all attempts, a job has in this class (ms)."""


AUTO = "AUTO"
"""The class of a job that takes the highest class in which its user has room."""
AUTO_VALUE = -1
"""What a waiting AUTO job shows as its priority (HFAI's). It waits below every class all the same:
`policy.order`."""

UserLimits = Mapping[str, Mapping[str, int]]
"""Slots that a user may hold, by pool and by class. A pool that is not there has no limit; a class
that is missing in a pool that is there has no slots."""


@dataclass(frozen=True, kw_only=True, slots=True)
class UserGroup:
    """Users with limits in common: each of its members may hold that much."""

    name: str
    limits: UserLimits = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class User:
    """Who submits jobs, and how many slots they may hold."""

    name: str
    """As in `Job.submitter`."""
    limits: UserLimits = field(default_factory=dict)
    """Personal limits: each beats those of the groups for that pool and class."""
    groups: tuple[str, ...] = ()
    """The user groups that it is in: the largest of their limits counts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Yielded:
    """When a user's job last yielded to a time slice: all that this user's waiting jobs of that
    rank count as having entered just after it."""

    user: str
    workload: Workload
    priority: int
    at: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """Jobs submitted together: a gang, whose jobs start together, over all their pools, or not at
    all, and are of one project; or a sweep, whose jobs are independent."""

    name: str
    members: tuple[str, ...]
    """The names of all its jobs, submitted yet or not."""
    min_members: int | None = None
    """How many must run at once, those that have completed counted; None: all that have not been
    cancelled."""
    mandatory: tuple[str, ...] = ()
    """Members without which it does not start."""
    same_pool: bool = False
    """All of it in one pool."""
    max_parallel: int | None = None
    """It is a sweep, and at most so many of its members hold slots at once; None: it is a gang."""
    ended: Mapping[str, JobState] = field(default_factory=dict)
    """How those of its members ended that have."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SchedulerSettings:
    """How often it is tried to start a job, and how long apart: NVIDIA FLARE's scheduler.

    Without any, a job is tried whenever something changes, and never given up.
    """

    max_jobs: int | None = None
    """How many jobs may hold slots at once, a gang counted as one; None: as many as fit."""
    max_schedule_count: int = 10
    """After so many attempts in vain the job is given up."""
    min_schedule_interval: int = 10_000
    """From the first attempt to the second (ms, above 0); each further interval is twice the one
    before."""
    max_schedule_interval: int = 600_000
    """No interval is longer (ms)."""


class StopCause(StrEnum):
    """Who wants an attempt to end."""

    EVICTED = "evicted"
    YIELDED = "yielded"
    """Evicted too: its time slice was over, and it was another user's turn."""
    REQUEUED = "requeued"
    """Evicted too: its user gave the attempt up, and nobody was waiting for its slots."""
    CANCELLED = "cancelled"
    NO_CAPACITY = "no_capacity"
    """SageMaker looked for instances for longer than the pool's `pending_timeout`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StopOrder:
    """A durable intent: this attempt is to be stopped."""

    cause: StopCause
    by: str
    """The job that it makes room for, or the person who cancelled it or gave it up."""
    at: int
    sent: bool = False
    """SageMaker has accepted the stop."""


class AttemptOutcome(StrEnum):
    """How an attempt ended, in the queue's words."""

    COMPLETED = "completed"
    EVICTED = "evicted"
    CANCELLED = "cancelled"
    STOPPED = "stopped"
    FAILED = "failed"
    MAX_RUNTIME = "max_runtime"
    NO_CAPACITY = "no_capacity"
    FAULT = "fault"
    """SageMaker's own error; the job is not to blame."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """One run of a job: one SageMaker training job."""

    number: int
    """From 1 up."""
    training_job: str
    """The training job's name (DESIGN section 1, "Names")."""
    token: str
    """The intent's mark on the training job, by which a repeated create is known as ours."""
    pool: str
    instance_type: str
    admitted_at: int
    """When the slots were given; the intent is durable from here on."""
    created: bool = False
    """SageMaker has accepted the create."""
    pending_since: int | None = None
    """Since when SageMaker has been looking for its instances; None where it is not known to."""
    running_since: int | None = None
    """When the training job had its instances; None while starting."""
    checkpoint_at: int | None = None
    """The last checkpoint it reported."""
    stop: StopOrder | None = None
    ended_at: int | None = None
    outcome: AttemptOutcome | None = None
    message: str = ""
    """What SageMaker said of the end (FailureReason), or why the create was refused."""
    artifact: str = ""
    """S3 URI of model.tar.gz."""
    checkpoints: str = ""
    """S3 URI of the checkpoints."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """The slots a job is owed, until it starts or stops waiting: because others were evicted for
    it, or because it was itself, to start again there."""

    pool: str
    amount: Demand
    since: int
    priority_class: str = ""
    """The class that counts in its user's limits meanwhile; set where an AUTO job claims."""
    moved: bool = False
    """It was moved here from another pool: nobody may take the claim over."""


class Workload(StrEnum):
    """What a job is for. Interactive and inference jobs come before training, are never evicted and
    run within quota only."""

    TRAINING = "training"
    INTERACTIVE = "interactive"
    INFERENCE = "inference"


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """What a user asks for. It outlives evictions."""

    name: str
    state: JobState
    priority: int
    """High first; −1,000,000 … 1,000,000."""
    entry_time: int
    """When the submission was accepted. An evicted job keeps it, and with it its place."""
    demand: Demand
    pools: tuple[str, ...]
    """Names of the pools it accepts, the most welcome first. Never empty."""
    parts: tuple[tuple[str, Demand], ...] = ()
    """What it needs in each of several pools at once: then `pools` are all of these, and `demand`
    is the sum. Empty: all of its demand in one pool."""
    preemptible: bool = True
    min_runtime: int = 0
    """Asked-for safety from eviction after each start, capped by the pool's `max_min_runtime`."""
    retries: int = 0
    """How many more times it may run after a failure of its own."""
    project: str = ""
    """The one implicit project is the empty name."""
    group: str = ""
    """The name of the group that it is a member of; empty: none."""
    after: tuple[str, ...] = ()
    """The jobs that it still waits for: they have to complete before it waits for slots."""
    workload: Workload = Workload.TRAINING
    priority_class: str = ""
    """The name of its priority's class; empty: a bare number."""
    ran_before_class: int = 0
    """How much of `ran` was behind it when it came into its class (ms)."""
    admitted_class: str = ""
    """The class that counts in its user's limits, where it has been demoted since; empty: its
    present one."""
    auto: bool = False
    """Whether it is submitted as AUTO: from its admission to its eviction it is of a class."""
    checkpoints: bool = True
    """Whether it goes on where it was stopped. One that would lose its work yields to no slice."""
    submitter: str = ""
    """Who signed the submission."""
    attempts: int = 0
    """How many attempts have begun."""
    evictions: int = 0
    """How many evictions were decided against it."""
    schedule_attempts: int = 0
    """How many attempts to start it were in vain since it last held slots. Counted only where there
    are `SchedulerSettings`."""
    faults: int = 0
    """SageMaker's own faults in a row; sets the length of the next back-off."""
    ran: int = 0
    """How long its ended attempts have run in all (ms)."""
    attempt: Attempt | None = None
    """The live attempt: there if and only if the state is active."""
    claim: Claim | None = None
    """Only while it waits; and while it stops, to start again in another pool."""
    not_before: int | None = None
    """There if and only if the state is `backoff`."""
    changed_at: int = 0
    """When it came into its present state."""
    cause: str = ""
    """Why it is in its present state, for programs, where the state alone does not say:
    `max_runtime`, `rejected`, `name_taken`, `not_scheduled`, `cannot_schedule`,
    `dependency` …"""
    message: str = ""
    """The same for people."""
    digest: str = ""
    """Hash of the submitted body: the same body again is the same submission."""
    version: int = 0
    """Raised by one with each committed change."""

    @property
    def evictable(self) -> bool:
        """Whether its class and its owner let it be evicted at all."""
        return self.preemptible and self.workload is Workload.TRAINING

    @property
    def waits(self) -> bool:
        """Waits for slots (a job in back-off waits for a time instead, one that comes `after`
        others for these)."""
        return self.state in WAITING_STATES and not self.after

    @property
    def active(self) -> bool:
        return self.state in ACTIVE_STATES

    @property
    def terminal(self) -> bool:
        return self.state in TERMINAL_STATES


@dataclass(frozen=True, kw_only=True, slots=True)
class Submission:
    """What a user asks for, read and well-formed, before the queue has looked at its pools."""

    name: str
    instance_type: str
    demand: Demand
    role: str = ""
    """The execution role's ARN: what the training job runs under."""
    plan: str = ""
    """The ARN of the SageMaker training plan whose capacity it asks for; empty: none."""
    pools: tuple[str, ...] = ()
    """Pools asked for by name, the most welcome first; empty: every pool of that instance type."""
    parts: tuple[tuple[str, Demand], ...] = ()
    """Where it runs over several pools at once: what it needs in each."""
    priority: int = 0
    preemptible: bool = True
    min_runtime: int = 0
    retries: int = 0
    digest: str = ""
    workload: Workload = Workload.TRAINING
    project: str = ""
    priority_class: str = ""
    group: str = ""
    """The group that it is a member of; empty: none."""
    checkpoints: bool = True
    after: tuple[str, ...] = ()
    """The jobs that have to complete before it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """The frozen input of a decision.

    `waiting` may be everything that waits or only the heads of each line: the plan is the same
    (`policy.lines` says how many heads that takes).
    """

    pools: tuple[Pool, ...]
    active: tuple[Job, ...] = ()
    """Every job that holds slots: starting, running, stopping."""
    waiting: tuple[Job, ...] = ()
    """Jobs that wait for slots, and every claimant, in any order."""
    due: tuple[Job, ...] = ()
    """Jobs in back-off whose time may have come."""
    projects: tuple[Project, ...] = ()
    """The oldest first. None: all jobs are of the one implicit project, which knows no quota."""
    departments: tuple[Department, ...] = ()
    classes: tuple[PriorityClass, ...] = ()
    """None: HFAI's."""
    groups: tuple[Group, ...] = ()
    users: tuple[User, ...] = ()
    """Users with limits. Who is not among them has none."""
    user_groups: tuple[UserGroup, ...] = ()
    yields: tuple[Yielded, ...] = ()
    """The last for each user and rank."""
    scheduler: SchedulerSettings | None = None
