"""Capacity that jobs can run on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from slotq_core.gpu_amounts import WHOLE, Gpus
from slotq_core.model.capacity.schedule import Schedule, slots_at
from slotq_core.model.capacity.work import WorkKind
from slotq_core.model.demand import Demand, Properties
from slotq_core.timestamps import Duration, Moment

if TYPE_CHECKING:  # `slotq ls` reads no plans and no reservations.
    from slotq_core.model.capacity.plans import PlanFacts
    from slotq_core.model.capacity.reservations import Reservation


@dataclass(frozen=True, kw_only=True, slots=True)
class MissingRight:
    """A right that is missing in a pool, for every job or for the jobs of one execution role.

    Jobs that need the right do not start in the pool before `not_before`. Then one job at a time
    probes, until SageMaker accepts one.
    """

    role: str = ""
    """The execution role whose jobs need the right; empty: every job of the pool needs it."""
    action: str
    """The missing action in IAM's notation, e.g. `iam:PassRole`."""
    since: Moment
    """When SageMaker first refused (ms)."""
    refusals: int = 1
    """Consecutive refusals."""
    not_before: Moment
    """No start is tried before this moment (ms)."""
    message: str = ""
    """SageMaker's last message about the refusal."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FailedNodes:
    """A tenant's image that could not run a node's agent in a pool. Before `not_before` the
    tenant's jobs take whole instances there."""

    tenant: str
    """As in the jobs (`Job.tenant`)."""
    image: str = ""
    """The image; empty: not known any more."""
    since: Moment
    """When a node first failed (ms)."""
    failures: int = 1
    """Consecutive failures."""
    not_before: Moment
    """No node starts for the tenant before this moment (ms)."""
    message: str = ""
    """SageMaker's FailureReason of the last node."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolHealth:
    """Whether SageMaker has lately provided the pool's configured capacity.

    After a capacity error the pool backs off until `not_before`. Then one job at a time probes the
    pool, until one of its training jobs gets instances.
    """

    errors: int = 0
    """Consecutive capacity errors; 0: healthy."""
    not_before: Moment | None = None
    """Nothing starts in the pool before this moment (ms)."""
    learned: int | None = None
    """Slots that the account's service limit allows; None: no such limit is known."""
    learned_until: Moment | None = None
    """When the queue tries the configured capacity again (ms)."""
    message: str = ""
    """SageMaker's last message about its capacity."""
    missing_rights: tuple[MissingRight, ...] = ()
    """At most one for each role, and one for all jobs."""
    failed_nodes: tuple[FailedNodes, ...] = ()
    """At most one for each tenant."""
    warm_refused_at: Moment | None = None
    """When the account last had no quota for warm instances of the pool's type (ms)."""
    plan: PlanFacts | None = None
    """The pool's training plan as last read; None: the pool has none, or it was not read yet."""
    starts: tuple[int, ...] = ()
    """How long the last starts took (ms), the latest last (`policy.lifecycle.pool_health`)."""
    started_at: Moment | None = None
    """When the latest of them ended (ms)."""

    @property
    def start_time(self) -> int:
        """How long a start takes (ms), by the mean of `starts`; 0: not known."""
        return sum(self.starts) // len(self.starts) if self.starts else 0

    @property
    def slow_start(self) -> int | None:
        """How long (ms) 95 in 100 of `starts` take at most; None: not known."""
        last = -(-95 * len(self.starts) // 100) - 1
        return sorted(self.starts)[last] if self.starts else None


HEALTHY = PoolHealth()


class CapacityKind(StrEnum):
    """How a pool's instances are bought."""

    ON_DEMAND = "on_demand"
    SPOT = "spot"
    """Managed spot training: SageMaker may take the instances back, and the training job waits for
    others."""
    PLAN = "plan"
    """A training plan: instances that are bought ahead, for windows of time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ServiceQuota:
    """The quota that a refused start names, as a job of its kind of work sees it. With neither an
    instance type nor `all_training`, the quota is of something else, such as warm instances."""

    limit: int | None = None
    """The quota in instances; None: the refusal does not say."""
    instance_type: str = ""
    """The instance type whose use by jobs of that kind the quota limits; empty: no such quota."""
    capacity_kind: CapacityKind = CapacityKind.ON_DEMAND
    """How the instances of that type are bought whose use the quota limits."""
    all_training: bool = False
    """Whether the quota limits all jobs of that kind of the account together."""


class PoolState(StrEnum):
    """An operator's setting for a pool. No state evicts anything: running jobs go on."""

    ACTIVE = "active"
    PAUSED = "paused"
    """Nothing starts for now. The pool still counts in shares and for claims."""
    DRAINED = "drained"
    """Nothing starts, and the pool adds nothing to any share."""


class CheckpointRule(StrEnum):
    """The treatment of a preemptible training job without checkpoints, which an eviction would
    restart. From the mildest to the strictest."""

    WARN = "warn"
    """The job is accepted, and its user is warned."""
    PROVIDE = "provide"
    """The job is given a place for checkpoints below its own output."""
    REQUIRE = "require"
    """The job is refused."""


class OnStall(StrEnum):
    """The treatment of an attempt that has reported nothing for the pool's `stall_after`."""

    WARN = "warn"
    EVICT = "evict"
    """It is stopped. As after a failure, the job waits again while it has retries left."""


LONGEST = 28 * 86_400_000
"""Milliseconds. SageMaker lets no training job run longer."""

AUTO = -1
"""A `min_runtime` of as long as a start takes in the pool, as the queue has learned; written
`auto`."""
LONGEST_AUTO = 600_000
"""The longest protection (ms) that AUTO gives."""


def _setting(text: str, *, least: int = 0, most: int = LONGEST) -> Mapping[str, Any]:
    """Metadata of a setting besides its name, type and default: the help of its option, and the
    bounds of a duration (ms)."""
    return {"help": text, "least": least, "most": most}


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeRules:
    """How a pool keeps nodes."""

    gpus: int = 0
    """The GPUs of one instance; 0: as many as the pool's capacity says for each slot."""
    keep: Duration = 600_000
    """How long a node without jobs stays."""
    shared: bool = False
    """Whether jobs of different projects may share a node. Each job then counts its own amounts in
    quotas and shares; else a node counts whole for its project while a job is on it."""
    image: str = ""
    """The container image for jobs that name none; empty: such a job takes a whole instance."""
    role: str = ""
    """The execution role for jobs that name none."""
    subnets: tuple[str, ...] = ()
    """The network for jobs that name none, with `security_groups`."""
    security_groups: tuple[str, ...] = ()
    gpu_ids: tuple[str, ...] = ()
    """The GPUs' ids as CUDA_VISIBLE_DEVICES takes them; empty: the agent finds them itself."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pool:
    """Capacity that jobs can run on: one kind of instance in one region and account.

    Durations, switches (`bool`) and choices (an enum) are settings: everything that reads, writes
    or checks a pool's settings follows from their declaration (`wire.pool_definition`), and
    so does the option of `slotq pools set`.
    """

    name: str
    instance_type: str
    """SageMaker's instance type, e.g. `ml.p5.48xlarge`."""
    capacity: Demand
    """The pool's total capacity."""
    contents: tuple[str, ...] = ()
    """The resources in `capacity` that are counted from the instances' contents, not declared,
    because quotas name them (`admission.instance_contents`)."""
    properties: Properties = field(default_factory=Demand)
    """The declared properties of each slot, e.g. `nvlink`. A job may require a property; no job
    uses it up. No name is both a property and a resource in one queue."""
    foreign: Demand = field(default_factory=Demand)
    """Capacity that training jobs outside the queue occupy, if the pool counts them."""
    reserve_after: Duration | None = field(
        default=None,
        metadata=_setting("How long other jobs may pass a job that does not fit; none: always."),
    )
    """How long others may pass a job that does not fit, from its entry. 0: strict order; None: for
    ever."""
    min_runtime: Duration = field(
        default=0,
        metadata={
            **_setting(
                "How long an attempt is protected from eviction; auto: as long as a start takes, "
                "at most 10 minutes."
            ),
            "auto": True,
        },
    )
    """Protection of attempts in this pool from eviction, from each start; AUTO:
    `auto_protection`."""
    max_min_runtime: Duration = field(
        default=0, metadata=_setting("The largest min. runtime that a job may set.")
    )
    """The most that a job's own `min_runtime` counts in this pool."""
    time_slice: Duration | None = field(
        default=None,
        metadata=_setting(
            "How long a job runs before it yields to another user's of the same rank.", least=1_000
        ),
    )
    """How long an attempt runs before it yields to a job of equal rank whose user holds fewer
    slots; None: no time slices."""
    suspend_grace: Duration = field(
        default=0,
        metadata=_setting(
            "How long a script is asked to release its slots before its job is stopped; 0: not.",
            most=840_000,
        ),
    )
    """Grace period in which a victim is only asked to stop, before it is stopped. A pass can be
    asked for hardly longer ahead (`ports.surroundings.LONGEST_DELAY`)."""
    pending_timeout: Duration | None = field(
        default=None,
        metadata=_setting("How long SageMaker may look for instances.", least=1_000),
    )
    """How long SageMaker may look for instances before the queue gives the attempt up; None: for
    ever."""
    spot_wait: Duration = field(
        default=0,
        metadata=_setting(
            "How long a job of a spot pool may wait for instances beyond its longest runtime."
        ),
    )
    """How long SageMaker may look for instances in all, in addition to the rest of the job's
    maximum runtime. Only spot pools have a use for it."""
    keep_warm: Duration | None = field(
        default=None,
        metadata=_setting(
            "How long instances stay warm for the next job when a job ends; 0: not; none: as long "
            "as the job's own request says.",
            most=21_600_000,
        ),
    )
    """How long SageMaker keeps the instances of an ended attempt for a matching one, at most what
    the job's own request says; None: what the request says."""
    stall_after: Duration | None = field(
        default=None,
        metadata=_setting(
            "How long a script may report nothing before its job counts as stalled.", least=60_000
        ),
    )
    """How long an attempt may report nothing before it counts as stalled; None: for ever."""
    count_foreign: bool = field(
        default=False, metadata=_setting("Count training jobs outside the queue.")
    )
    """Whether training jobs outside the queue count against this pool."""
    consolidate: bool = field(
        default=False, metadata=_setting("Running jobs may move to another pool or node.")
    )
    """Whether running jobs may move to another of their acceptable pools, or to another node of
    this one, to let a waiting job start."""
    open: bool = field(
        default=True,
        metadata=_setting(
            "Whether projects without a quota in the pool may use what is idle there."
        ),
    )
    """False: only projects with a quota in this pool may use it. Without projects this has no
    effect."""
    stall_unreported: bool = field(
        default=False,
        metadata=_setting("Whether jobs that never report anything stall too."),
    )
    """Whether a job that has never reported anything stalls too, from each start on."""
    read_reports: bool = field(
        default=False, metadata=_setting("Choose victims by their reported checkpoints.")
    )
    """Whether victims are chosen by their reported checkpoints. The queue then reads the reports of
    running jobs that may be evicted; `stall_after` reads them too."""
    checkpoints: CheckpointRule = field(
        default=CheckpointRule.WARN,
        metadata=_setting(
            "Preemptible jobs without checkpoints: warn, provide a place, or refuse them."
        ),
    )
    """The treatment of preemptible jobs without checkpoints (`admission.checkpoints`)."""
    on_stall: OnStall = field(
        default=OnStall.WARN,
        metadata=_setting("Warn of a stalled job, or stop it and use one of its retries."),
    )
    capacity_kind: CapacityKind = field(
        default=CapacityKind.ON_DEMAND,
        metadata=_setting(
            "How the instances are bought: on demand, as spot, or by a training plan."
        ),
    )
    work: WorkKind = field(
        default=WorkKind.TRAINING,
        metadata=_setting("The kind of work whose quota the pool is: training or processing."),
    )
    """The kind of work that the pool holds: SageMaker has a quota of instances for each."""
    state: PoolState = field(
        default=PoolState.ACTIVE,
        metadata=_setting("Whether jobs start in the pool, and whether it counts in shares."),
    )
    plan_arn: str = ""
    """The training plan (its ARN) of a pool whose `capacity_kind` is plan; empty: no plan."""
    nodes: NodeRules | None = None
    """How the pool keeps nodes; None: every job takes whole instances."""
    windows: tuple[str, ...] = ()
    """The opening hours, as `wire.capacity.opening_hours` writes them; empty: the pool is always
    open. Nothing below the edge reads them: see `schedule`."""
    schedule: Schedule = ()
    """When the pool offers how many slots, as of a load (`storage.scheduled`); empty: always all.
    Not stored."""
    reservations: tuple[Reservation, ...] = ()
    """Slots that are set aside for projects, the first to begin first. Together they never exceed
    the capacity. Ended ones stay until the pool's settings change."""
    health: PoolHealth = field(default_factory=lambda: HEALTHY)
    """The pool's health as the queue has learned it; stored apart from the configuration."""

    def offers(self, now: int) -> Demand:
        """The configured capacity that the schedule offers at `now` (ms), without foreign use and
        whatever the account allows; nothing when drained or closed."""
        if self.state is PoolState.DRAINED:
            return Demand()
        if not self.schedule:
            return self.capacity - self.foreign
        offered = slots_at(self.schedule, now, of=self.capacity.slots)
        if not offered:
            return Demand()
        return self.capacity - self.foreign - Demand(slots=self.capacity.slots - offered)

    @property
    def auto_protection(self) -> int:
        """How long AUTO protects an attempt (ms), from its creation while it starts and then from
        its start; 0: the pool has a number, or no start is known."""
        if self.min_runtime >= 0:
            return 0
        return min(LONGEST_AUTO, self.health.start_time)

    @property
    def is_timed(self) -> bool:
        """Whether the pool's size changes with time: it has hours, or a training plan."""
        return bool(self.windows) or self.capacity_kind is CapacityKind.PLAN

    @property
    def asks_how_long(self) -> bool:
        """Whether it matters how long jobs may run: the pool's size changes, slots of it are
        reserved, or it drains for jobs."""
        return self.is_timed or bool(self.reservations) or self.reserve_after is not None

    @property
    def listens(self) -> bool:
        """Whether reports of running scripts decide anything here."""
        return self.stall_after is not None or self.read_reports

    def size(self, now: int) -> Demand:
        """The capacity that the queue may use now: `offers`, minus the slots that the account's
        limit denies for now, and those of a training plan that are unhealthy."""
        learned, offered, plan = self.health.learned, self.offers(now), self.health.plan
        if plan is not None and plan.unhealthy and offered:
            offered = offered - Demand(slots=min(plan.unhealthy, offered.slots))
        if learned is None or now >= (self.health.learned_until or 0):
            return offered
        if not offered:
            return offered
        slots = slots_at(self.schedule, now, of=self.capacity.slots)
        return offered - Demand(slots=max(0, slots - learned))


def gpus_of(pool: Pool) -> int:
    """The GPUs of one instance of a pool with nodes; 0: not known."""
    if pool.nodes is not None and pool.nodes.gpus:
        return pool.nodes.gpus
    return pool.capacity["gpus"] // max(1, pool.capacity.slots)


def gpu_room(pool: Pool) -> Gpus:
    """The same in hundredths."""
    return WHOLE * gpus_of(pool)


@dataclass(frozen=True, kw_only=True, slots=True)
class WarmSlot:
    """The instances of an ended attempt, which SageMaker keeps for a matching training job.

    They count in the account's limit. A start that does not match waits until they are gone.
    """

    pool: str
    training_job: str
    """The training job that ran there last."""
    job: str
    """The job that ran there last, and whom its time is charged to."""
    number: int
    """The number of its attempt."""
    project: str = ""
    submitter: str = ""
    workload: str = ""
    instance_type: str
    demand: Demand
    """What the instances take of the pool."""
    key: str
    """What a training job must have in common with the last one (`wire.training.warm_keys`)."""
    since: Moment
    """When the attempt ended (ms)."""
    until: Moment
    """When SageMaker lets the instances go (ms)."""
    released_at: Moment | None = None
    """When the queue decided to release them (ms). From then on they are coming free."""
    released_for: str = ""
    """The job that needs them in another form; empty: none does."""
    sent: bool = False
    """True once SageMaker has accepted the release."""
    taken_by: str = ""
    """The queue's own training job that starts on them. It holds the pool's slots itself."""
    taken_at: Moment | None = None
    reused_by: str = ""
    """A training job outside the queue that SageMaker gave them to: foreign use until its end."""
    version: int = 0
    """Rises by one with each committed change."""

    @property
    def idle(self) -> bool:
        """Whether a matching job may start on them, or a release may be ordered."""
        return self.released_at is None and not (self.taken_by or self.reused_by)

    @property
    def holds(self) -> bool:
        """Whether the instances count apart from the queue's own training jobs."""
        return not self.taken_by or bool(self.reused_by)

    @property
    def releasing(self) -> bool:
        """Whether they are coming free."""
        return self.released_at is not None and not (self.taken_by or self.reused_by)
