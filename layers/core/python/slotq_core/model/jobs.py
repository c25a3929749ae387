"""What a user asks for, as submitted and as the queue keeps it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from slotq_core.model.attempts import Attempt
from slotq_core.model.demand import Demand


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
QUEUED_STATES = frozenset({*WAITING_STATES, JobState.BACKOFF, JobState.HELD})
"""Kept, and holds no slots."""
ACTIVE_STATES = frozenset({JobState.STARTING, JobState.RUNNING, JobState.STOPPING})
TERMINAL_STATES = frozenset(
    {JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED, JobState.STOPPED}
)


class Workload(StrEnum):
    """What a job is for. Interactive and inference jobs come before training, are never evicted and
    run within quota only."""

    TRAINING = "training"
    INTERACTIVE = "interactive"
    INFERENCE = "inference"


_TRAINING = Workload.TRAINING
"""By a name of its own: a plan asks very often, and a member of an enum costs a call to find."""


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
    role: str = ""
    """The execution role's ARN; empty: not known."""
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
        return self.preemptible and self.workload is _TRAINING

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
