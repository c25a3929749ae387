"""Pools as JSON: their settings, their use and their health."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from slotq_core.model.capacity.reservations import Reservation
from slotq_core.model.capacity.schedule import SizeNow
from slotq_core.model.demand import Demand
from slotq_core.model.pools import Pool, PoolHealth, WarmSlot
from slotq_core.timestamps import iso, seconds, wall_clock
from slotq_core.wire import VERSION, traits
from slotq_core.wire.base import BaseModel
from slotq_core.wire.pool_definition import settings_of
from slotq_core.wire.views.forms import view_of

if TYPE_CHECKING:  # As in `model.pools`.
    from slotq_core.model.capacity.plans import PlanFacts


class MissingRightView(BaseModel):
    """A missing right. No job that needs it starts in the pool."""

    role: str = ""
    """The execution role whose jobs need the right; empty: every job of the pool needs it."""
    action: str
    """The missing action in IAM's notation."""
    since: str
    refusals: int
    """Consecutive refusals."""
    not_before: str
    """No start is tried before this moment."""
    message: str = ""
    """SageMaker's last message about the refusal."""


class FailedNodesView(BaseModel):
    """An image that could not run a node's agent. Its tenant's jobs take whole instances of the
    pool before `not_before`."""

    tenant: str
    """A short hash of what all jobs on one node have in common."""
    image: str = ""
    since: str
    failures: int
    """Consecutive failures."""
    not_before: str
    """No node starts for the tenant before this moment."""
    message: str = ""
    """SageMaker's FailureReason of the last node."""


class PlanWindowView(BaseModel):
    begins: str
    ends: str
    """When the window is over. SageMaker begins to take its instances 30 minutes earlier."""
    slots: int


class PlanView(BaseModel):
    """A training plan, as SageMaker last described it."""

    arn: str
    status: str
    """`pending`, `scheduled`, `active`, `expired` or `failed`; `not_found`: there is no such plan;
    `unread`: SageMaker does not say."""
    for_training: bool = True
    """Whether training jobs may use the plan."""
    instance_type: str = ""
    windows: list[PlanWindowView] = Field(default=[])
    """When the plan has instances."""
    total: int = 0
    in_use: int = 0
    unhealthy: int = 0
    read_at: str
    """When SageMaker first said so."""
    message: str = ""


class PoolHealthView(BaseModel):
    """The health of a pool, from SageMaker's refusals and from what its starts took."""

    errors: int = 0
    """Consecutive capacity errors; 0: healthy."""
    not_before: str | None = None
    """Nothing starts in the pool before this moment."""
    learned: int | None = None
    """Slots that the account's service limit allows, if fewer than the capacity."""
    learned_until: str | None = None
    """When the queue tries the configured capacity again."""
    message: str = ""
    """SageMaker's last message about its capacity."""
    missing_rights: list[MissingRightView] = Field(default=[])
    """Rights that the queue or an execution role lacks in the pool."""
    warm_refused_at: str | None = None
    """When SageMaker last kept no instances warm, for want of a quota."""
    failed_nodes: list[FailedNodesView] = Field(default=[])
    """Images that could not run a node's agent in the pool."""
    start_seconds: float | None = None
    """How long a start takes, from the creation of a training job until it has its instances,
    without waits for capacity: the mean of `starts`. None: not known."""
    slow_start_seconds: float | None = None
    """What 95 in 100 of them do not exceed."""
    starts: list[float] = Field(default=[])
    """How long the last 20 starts took, in seconds, the latest last."""
    started_at: str | None = None
    """When the latest of them ended."""
    plan: PlanView | None = None
    """The pool's training plan; None: the pool has none, or it was not read yet."""


class VpcView(BaseModel):
    subnets: list[str]
    security_groups: list[str]


class NodeRulesView(BaseModel):
    """How a pool keeps nodes."""

    gpus: int
    """The GPUs of one instance."""
    keep: int
    """How long a node without jobs stays, in seconds."""
    share: str
    """Whose jobs share a node: those of one `project`, or of the whole `pool`."""
    image: str
    """The container image of jobs that name none; empty: none."""
    role: str
    """The execution role of jobs that name none; empty: none."""
    vpc: VpcView
    """The network of jobs that name none."""
    gpu_ids: list[str]
    """The GPUs as CUDA_VISIBLE_DEVICES takes them; empty: the agent finds them."""


class ReservationView(BaseModel):
    """Slots of a pool that are set aside for one project."""

    project: str
    slots: int
    begins: str
    """In the time of its zone."""
    ends: str
    zone: str
    """The time zone, as the IANA database names it."""


class PoolSettingsView(BaseModel):
    """A pool's settings, as PATCH /pools/{name} takes them. Durations are seconds."""

    slots: int
    instance_type: str
    reserve_after: int | None
    """How long others may pass a job that does not fit; None: for ever."""
    min_runtime: int | Literal["auto"]
    """How long an attempt is protected from eviction; `auto`: as long as a start takes, at most 10
    minutes."""
    max_min_runtime: int
    """The most that a job's own `min_runtime` counts."""
    time_slice: int | None
    """How long a job runs before it yields to another user's; None: no time slices."""
    pending_timeout: int | None
    """How long SageMaker may look for instances; None: for ever."""
    capacity_kind: str = "on_demand"
    """How the instances are bought: `on_demand`, `spot`, or `plan`."""
    work: str = "training"
    """The kind of work whose quota the pool is: `training` or `processing`."""
    plan_arn: str = ""
    """The training plan of a pool whose `capacity_kind` is `plan`."""
    spot_wait: int = 0
    """How long a job of a spot pool may wait for instances beyond its longest runtime."""
    keep_warm: int | None = None
    """How long instances stay warm for the next job when a job ends, at most; None: as long as the
    job's own request says."""
    suspend_grace: int = 0
    """How long a script is asked to release its slots before the job is stopped."""
    stall_after: int | None = None
    """How long a script may report nothing before its job counts as stalled; None: for ever."""
    on_stall: str = "warn"
    """The treatment of a stalled job: `warn`, or `evict` it and use one of its retries."""
    count_foreign: bool
    """Whether training jobs outside the queue count against the pool."""
    consolidate: bool
    """Whether running jobs may move to another pool or node."""
    open: bool = True
    """False: only projects with a quota in the pool may use it."""
    stall_unreported: bool = False
    """Whether jobs that never report anything stall too."""
    read_reports: bool = False
    """Whether victims are chosen by their reported checkpoints."""
    resources: dict[str, int]
    """The pool's resources besides slots."""
    properties: dict[str, traits.Value] = Field(default={})
    """Properties of the pool's slots. Jobs may require them, and do not use them up."""
    checkpoints: str = "warn"
    """The treatment of a preemptible training job without checkpoints: `warn`; `provide`: it is
    given a place for them; `require`: it is refused."""
    state: str
    """`active`; `paused`: nothing starts; `drained`: also counts in no share."""
    nodes: NodeRulesView | None = None
    """How the pool keeps nodes; None: every job takes whole instances."""
    windows: list[str] = Field(default=[])
    """When the pool is open; empty: always."""
    reservations: list[ReservationView] = Field(default=[])
    """Slots that are set aside for projects, the first to begin first."""


class HoursView(BaseModel):
    """What a pool's hours say now."""

    slots: int
    """How many slots the pool offers now."""
    cause: str
    """Why it offers no more: `open`; `window`: its opening hours are over; `plan`: its training
    plan has no more."""
    why: str = ""
    """Why it has no slots until further notice, as a sentence; empty: for its hours."""
    changes_at: str | None = None
    """When the number changes next; None: not known."""
    then: int | None = None
    """How many slots it offers from then on."""
    moment: str = ""
    """When slots come, or are gone for everybody, in the words of the pool's hours. Before they are
    gone, `changes_at` comes earlier by the pool's `suspend_grace`."""


class PoolReservationView(BaseModel):
    """A reservation that has not ended."""

    pool: str
    project: str
    slots: int
    begins: str
    ends: str
    zone: str
    """The time zone in which it was made."""
    in_force: bool
    """Whether it has begun."""
    moment: str
    """When it begins, or, once it is in force, ends, in the time of its zone."""


class WarmSlotView(BaseModel):
    """Instances of an ended attempt that SageMaker keeps. Somebody pays for them."""

    slots: int
    state: str
    """`idle`: for a job that matches; `releasing`: coming free; `reused`: a training job outside
    the queue has them."""
    since: str
    until: str
    """When SageMaker lets them go by itself."""


class PoolView(BaseModel):
    """One pool as the queue uses it. Amounts are by resource; `slots` is an instance each."""

    name: str
    instance_type: str
    capacity: dict[str, int]
    """The configured capacity."""
    size: dict[str, int]
    """The capacity that the queue may use now: the capacity without foreign use, less while the
    account allows less."""
    used: dict[str, int]
    """Used by jobs that start, run or stop."""
    foreign: dict[str, int]
    """Used by training jobs outside the queue, if the pool counts them."""
    warm: list[WarmSlotView] = Field(default=[])
    """Instances that stay warm; idle ones are free."""
    settings: PoolSettingsView
    health: PoolHealthView
    hours: HoursView | None = None
    """None: the pool is always open."""
    reserved: list[PoolReservationView] = Field(default=[])
    """The reservations that have not ended, the first to begin first."""


class PoolsView(BaseModel):
    version: int = VERSION
    revision: int = 0
    """The configuration's revision; rises with each change."""
    pools: list[PoolView]
    warnings: list[str] = Field(default=[])
    """What a change was accepted with, as sentences."""


class ReservationsView(BaseModel):
    """The reservations of a queue that have not ended."""

    version: int = VERSION
    revision: int = 0
    reservations: list[PoolReservationView]


def reservations_view(view: PoolsView, pool: str | None = None) -> ReservationsView:
    """The reservations in the pools, or in this one."""
    found = (
        entry for found in view.pools if pool in {None, found.name} for entry in found.reserved
    )
    return ReservationsView(revision=view.revision, reservations=[*found])


def pool_view(
    pool: Pool,
    *,
    now: int,
    size: Demand,
    used: Demand,
    hours: SizeNow | None = None,
    warm: Iterable[WarmSlot] = (),
) -> PoolView:
    return view_of(
        pool,
        PoolView,
        capacity=_amounts(pool.capacity),
        size=_amounts(size),
        used=_amounts(used),
        foreign=_amounts(pool.foreign),
        warm=[_warm_view(slot) for slot in warm if slot.holds],
        settings=PoolSettingsView(**settings_of(pool)),
        health=health_view(pool.health),
        hours=view_of(hours, HoursView, cause=hours.cause.value) if hours else None,
        reserved=[
            _reservation_view(pool.name, reservation, now)
            for reservation in pool.reservations
            if reservation.ends > now
        ],
    )


def _reservation_view(pool: str, reservation: Reservation, now: int) -> PoolReservationView:
    begun = reservation.begins <= now
    next_change = reservation.ends if begun else reservation.begins
    return view_of(
        reservation,
        PoolReservationView,
        pool=pool,
        in_force=begun,
        moment=wall_clock(next_change, reservation.zone),
    )


def _warm_view(slot: WarmSlot) -> WarmSlotView:
    state = "reused" if slot.reused_by else "releasing" if slot.releasing else "idle"
    return WarmSlotView(
        slots=slot.demand.slots, state=state, since=iso(slot.since), until=iso(slot.until)
    )


def health_view(health: PoolHealth) -> PoolHealthView:
    rights = [view_of(missing, MissingRightView) for missing in health.missing_rights]
    failed = [view_of(nodes, FailedNodesView) for nodes in health.failed_nodes]
    plan, slow = _plan_view(health.plan) if health.plan else None, health.slow_start
    return view_of(
        health,
        PoolHealthView,
        missing_rights=rights,
        failed_nodes=failed,
        plan=plan,
        start_seconds=seconds(health.start_time) if health.start_time else None,
        slow_start_seconds=None if slow is None else seconds(slow),
        starts=[*map(seconds, health.starts)],
    )


def _plan_view(facts: PlanFacts) -> PlanView:
    windows = [view_of(window, PlanWindowView) for window in facts.windows]
    return view_of(facts, PlanView, status=facts.status.value, windows=windows)


def _amounts(demand: Demand) -> dict[str, int]:
    return {"slots": demand.slots, **demand}
