"""JSON <-> model: changes of pools and limits."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, ValidationError, WithJsonSchema

from slotq_core.errors import InvalidRequest
from slotq_core.model.callers import Limits, QueueUse
from slotq_core.model.capacity.work import WorkKind
from slotq_core.model.pools import CapacityKind, CheckpointRule, OnStall, PoolState
from slotq_core.wire import VERSION, traits
from slotq_core.wire.base import BaseModel
from slotq_core.wire.body import invalid, json_object
from slotq_core.wire.document.values import Reservations, Windows
from slotq_core.wire.limits_definition import LONGEST_PATTERN, MOST, MOST_RULES, limit_settings
from slotq_core.wire.limits_definition import SETTINGS as LIMIT_SETTINGS
from slotq_core.wire.nodes.node_rules import (
    DEFAULT_KEEP,
    LONGEST_KEEP,
    MOST_GPUS,
    MOST_GROUPS,
    MOST_SUBNETS,
    NodeShare,
    switched,
)
from slotq_core.wire.pool_definition import (
    DURATIONS,
    FORGET_LIMIT,
    GRACE,
    LONGEST_PLAN,
    MOST_SLOTS,
    SETTINGS,
    longest,
)


def _seconds(key: str) -> Any:
    return Field(default=None, ge=DURATIONS[key], le=longest(key), strict=True)


def _limit(key: str, default: int | None = 0) -> Any:
    return Field(default=default, ge=0, le=MOST[key], strict=True)


def _switched(value: object) -> object:
    return GRACE * value if isinstance(value, bool) else value


def _or_flag(schema: dict[str, Any]) -> None:
    schema["anyOf"] = [*schema["anyOf"], {"type": "boolean"}]


Grace = Annotated[
    int | None,
    BeforeValidator(_switched),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 0, "maximum": longest("suspend_grace")},
                {"type": "boolean"},
                {"type": "null"},
            ]
        }
    ),
]
"""Seconds, or a switch."""


MinRuntime = (
    Annotated[int, Field(ge=0, le=longest("min_runtime"), strict=True)] | Literal["auto"] | None
)
"""Seconds, or `auto`."""


class VpcBody(BaseModel):
    """The network of jobs that name none: both lists, or neither."""

    model_config = ConfigDict(extra="forbid")
    subnets: list[str] = Field(default_factory=list, max_length=MOST_SUBNETS)
    security_groups: list[str] = Field(default_factory=list, max_length=MOST_GROUPS)


class NodesBody(BaseModel):
    """How a pool keeps nodes. A key that is left out has its default."""

    model_config = ConfigDict(extra="forbid")
    gpus: int = Field(default=0, ge=0, le=MOST_GPUS, strict=True)
    """The GPUs of one instance; 0: those of its type."""
    keep: int = Field(default=DEFAULT_KEEP, ge=0, le=LONGEST_KEEP, strict=True)
    """How long a node without jobs stays, in seconds."""
    share: NodeShare = NodeShare.PROJECT
    """`project`: the jobs of one project share a node; `pool`: those of every project do."""
    image: str = ""
    """The container image of jobs that name none."""
    role: str = ""
    """The execution role of jobs that name none."""
    vpc: VpcBody = VpcBody()
    gpu_ids: list[str] = Field(default_factory=list, max_length=MOST_GPUS)
    """The GPUs as CUDA_VISIBLE_DEVICES takes them; empty: the agent finds them."""


class PoolBody(BaseModel):
    """Changes of a pool, or a new pool, which needs `slots` and `instance_type`.

    Settings that it does not name stay. Durations are in seconds; null is none.
    """

    model_config = ConfigDict(extra="forbid")
    slots: int = Field(default=0, ge=0, le=MOST_SLOTS, strict=True)
    """Below the slots in use, nothing is stopped, and nothing starts until use has fallen."""
    instance_type: str = ""
    reserve_after: int | None = _seconds("reserve_after")
    min_runtime: MinRuntime = None
    """Seconds, or `auto`: as long as a start takes in the pool, at most 10 minutes."""
    max_min_runtime: int | None = _seconds("max_min_runtime")
    time_slice: int | None = _seconds("time_slice")
    pending_timeout: int | None = _seconds("pending_timeout")
    capacity_kind: CapacityKind = CapacityKind.ON_DEMAND
    """How the instances are bought: `on_demand`, `spot`, by managed spot training, or `plan`, by a
    training plan."""
    work: WorkKind = WorkKind.TRAINING
    """The kind of work whose quota the pool is: `training` or `processing`."""
    plan_arn: str | None = Field(default=None, max_length=LONGEST_PLAN)
    """The training plan of a pool whose `capacity_kind` is plan; null: none."""
    spot_wait: int | None = _seconds("spot_wait")
    keep_warm: int | None = _seconds("keep_warm")
    suspend_grace: Grace = Field(default=None, ge=0, le=longest("suspend_grace"), strict=True)
    """True: 5 seconds."""
    stall_after: int | None = _seconds("stall_after")
    on_stall: OnStall = OnStall.WARN
    stall_unreported: bool = Field(default=False, strict=True)
    read_reports: bool = Field(default=False, strict=True)
    count_foreign: bool = Field(default=False, strict=True)
    consolidate: bool = Field(default=False, strict=True)
    open: bool = Field(default=True, strict=True)
    """False: only projects with a quota in the pool may use it."""
    resources: dict[str, int] = Field(default_factory=dict)
    """All resources of the pool besides slots."""
    properties: dict[str, traits.Value] = Field(default_factory=dict)
    """All properties of the pool, e.g. `mem_per_gpu_in_GiB`: amounts, texts and booleans. Jobs may
    require them and use none up. Jobs that already wait keep their pools."""
    checkpoints: CheckpointRule = CheckpointRule.WARN
    """The treatment of a preemptible training job without checkpoints: `warn`, `provide` a place
    below its own output, or refuse it (`require`)."""
    state: PoolState = PoolState.ACTIVE
    nodes: Annotated[
        NodesBody | None, BeforeValidator(switched), Field(json_schema_extra=_or_flag)
    ] = None
    """How the pool keeps nodes; null or false: not; true: with the defaults."""
    windows: Windows = ()
    """When the pool is open, such as `mon-fri 20:00-08:00 Europe/Berlin`; empty: always. All of
    them."""
    reservations: Reservations = ()
    """Slots that are set aside for projects, such as `{project: team-a, slots: 4, begins:
    "2026-12-01 20:00", ends: "2026-12-02 08:00", zone: Europe/Berlin}`. All of them."""
    forget_limit: bool = Field(default=False, strict=True)
    """Forget the results of SageMaker's refusals: a smaller limit of the account, and the back-off.
    Setting `slots` does so too."""
    revision: int | None = Field(default=None, ge=0, strict=True)
    """The revision of the configuration that the caller decided on. An outdated revision is
    refused."""


class CallerRuleBody(BaseModel):
    """Limits for the callers whose ARN matches; limits that it does not name are everybody's."""

    model_config = ConfigDict(extra="forbid")
    callers: str = Field(min_length=1, max_length=LONGEST_PATTERN)
    """A pattern for callers' ARNs; `*` matches any text. The first matching rule counts."""
    together: bool = Field(default=False, strict=True)
    """Count all matching callers as one."""
    waiting: int | None = _limit("waiting", None)
    submissions: int | None = _limit("submissions", None)
    priority: int | None = _limit("priority", None)


class LimitsBody(BaseModel):
    """Changes of the limits. Limits that it does not name stay; 0 is no limit."""

    model_config = ConfigDict(extra="forbid")
    waiting: int = _limit("waiting")
    """The most jobs of one caller that wait, back off or are held."""
    submissions: int = _limit("submissions")
    """The most new jobs of one caller in a minute."""
    priority: int = _limit("priority")
    """The largest priority that a caller may give."""
    waiting_in_all: int = _limit("waiting_in_all")
    """As `waiting`, for all callers together."""
    lines: int = _limit("lines")
    """The most distinct lines of waiting jobs. A pass looks at each."""
    callers: list[CallerRuleBody] = Field(default_factory=list, max_length=MOST_RULES)
    """The complete list of rules."""
    revision: int | None = Field(default=None, ge=0, strict=True)
    """The revision of the configuration that the caller decided on. An outdated revision is
    refused."""


class CallerRuleView(BaseModel):
    callers: str
    together: bool = False
    waiting: int | None = None
    submissions: int | None = None
    priority: int | None = None


class LimitSettingsView(BaseModel):
    """The limits, as `LimitsBody` sets them; 0 is no limit."""

    waiting: int
    submissions: int
    priority: int
    waiting_in_all: int
    lines: int
    callers: list[CallerRuleView]


class OwnLimitsView(BaseModel):
    """The limits of the caller, and their use."""

    caller: str
    counted_as: str
    """The rule's pattern if a rule counts several callers together; else the person."""
    waiting: int
    waiting_used: int
    submissions: int
    submissions_used: int
    """Submissions in the current minute."""
    priority: int


class QueueUseView(BaseModel):
    """The use of all callers together, counted at each tick."""

    waiting: int
    lines: int


class LimitsView(BaseModel):
    version: int = VERSION
    revision: int
    limits: LimitSettingsView
    own: OwnLimitsView
    use: QueueUseView


def parse_pool(body: str | bytes) -> tuple[dict[str, Any], int | None]:
    """The settings in a body, as `Configurator.set_pool` takes them, and the revision.

    Raises InvalidRequest with the faulty field.
    """
    raw = json_object(body, what="the pool's settings")
    try:
        read = PoolBody.model_validate(raw)
    except ValidationError as error:
        raise invalid(error) from None
    settings = read.model_dump(exclude_unset=True, exclude={"revision"})
    if not settings:
        raise InvalidRequest(f"say what to change: {', '.join((*SETTINGS, FORGET_LIMIT))}")
    return settings, read.revision


def parse_limits(body: str | bytes) -> tuple[dict[str, Any], int | None]:
    """The settings in a body, as `limits_definition.limits_from` takes them, and the revision.

    Raises InvalidRequest with the faulty field.
    """
    raw = json_object(body, what="the limits")
    try:
        read = LimitsBody.model_validate(raw)
    except ValidationError as error:
        raise invalid(error) from None
    settings = read.model_dump(exclude_unset=True, exclude={"revision"})
    if not settings:
        raise InvalidRequest(f"say what to change: {', '.join(LIMIT_SETTINGS)}")
    return settings, read.revision


def limits_view(limits: Limits, *, revision: int, own: OwnLimitsView, use: QueueUse) -> LimitsView:
    return LimitsView(
        revision=revision,
        limits=limit_settings_view(limits),
        own=own,
        use=QueueUseView(waiting=use.waiting, lines=use.lines),
    )


def limit_settings_view(limits: Limits) -> LimitSettingsView:
    return LimitSettingsView.model_validate(limit_settings(limits))
