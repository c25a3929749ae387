"""The sections of a configuration document: one model for each, with one field for each key.

Unknown keys are refused: nothing in a document is ignored. A key that is missing has its default.
`checks` has the rules across sections.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self

from pydantic import BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from slotq_core.model.capacity.work import WorkKind
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import JobState, Workload
from slotq_core.model.notices import Digest, JobEvent
from slotq_core.model.pools import CapacityKind, CheckpointRule, OnStall, PoolState
from slotq_core.model.projects import Beyond, Fairness, UseOf
from slotq_core.model.sharing import NO_SHARING, FairShare, Subscription
from slotq_core.wire.base import BaseModel
from slotq_core.wire.document.faults import DocumentFault, refuse
from slotq_core.wire.document.receivers import About, To
from slotq_core.wire.document.values import (
    Capacity,
    Count,
    Duration,
    Fields,
    Flag,
    Grace,
    HalfLife,
    Influence,
    MaybeName,
    MinRuntime,
    Name,
    Pattern,
    Period,
    Positive,
    Principal,
    Properties,
    Quota,
    Reservations,
    SessionRole,
    SlotHours,
    UserLimits,
    Value,
    Weight,
    Windows,
)
from slotq_core.wire.nodes.node_rules import NodeShare, switched

MOST_PATTERNS = 200
"""The most patterns in one list."""

Principals = Annotated[tuple[Principal, ...], Field(max_length=MOST_PATTERNS)]
Patterns = Annotated[tuple[Pattern, ...], Field(max_length=MOST_PATTERNS)]


class Section(BaseModel):
    """One entry of a section."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    synonyms: ClassVar[Mapping[str, str]] = {}
    """Words that people write for a key, in lower case and without hyphens and underscores."""

    @classmethod
    def keys(cls) -> tuple[str, ...]:
        """The keys, as a document spells them."""
        return tuple(field.alias or name for name, field in cls.model_fields.items())


class VpcSection(Section):
    """The network of jobs that name none: both lists, or neither."""

    subnets: tuple[Name, ...] = ()
    security_groups: tuple[Name, ...] = ()


class NodesSection(Section):
    """How a pool keeps nodes. `node_rules` has the bounds."""

    gpus: Count = 0
    """The GPUs of one instance; 0: those of its type."""
    keep: Duration = 600_000
    """How long a node without jobs stays."""
    share: NodeShare = NodeShare.PROJECT
    image: MaybeName = ""
    """The container image of jobs that name none."""
    role: MaybeName = ""
    """The execution role of jobs that name none."""
    vpc: VpcSection = VpcSection()
    gpu_ids: tuple[Name, ...] = ()
    """The GPUs as CUDA_VISIBLE_DEVICES takes them; empty: the agent finds them."""


def _or_flag(schema: dict[str, Any]) -> None:
    schema["anyOf"] = [*schema["anyOf"], {"type": "boolean"}]


class PoolSection(Section):
    """A pool. A queue's pools need `instance_type`, which a scenario ignores."""

    synonyms: ClassVar[Mapping[str, str]] = {
        "slots": "capacity",
        "size": "capacity",
        "instances": "capacity",
    }

    name: Name
    capacity: Capacity
    instance_type: MaybeName = ""
    properties: Properties = Demand()
    """Properties of each slot. Jobs may require them, and do not use them up."""
    state: PoolState = PoolState.ACTIVE
    reserve_after: Duration | None = None
    min_runtime: MinRuntime = 0
    """A number, or `auto`."""
    max_min_runtime: Duration = 0
    pending_timeout: Period | None = None
    capacity_kind: CapacityKind = CapacityKind.ON_DEMAND
    """How the instances are bought."""
    work: WorkKind = WorkKind.TRAINING
    """The kind of work whose quota the pool is."""
    plan_arn: MaybeName = ""
    """The training plan of a pool whose `capacity_kind` is plan."""
    spot_wait: Duration = 0
    keep_warm: Duration | None = None
    """How long instances stay warm for the next job."""
    suspend_grace: Grace = 0
    stall_after: Period | None = None
    on_stall: OnStall = OnStall.WARN
    stall_unreported: Flag = False
    read_reports: Flag = False
    open: Flag = True
    time_slice: Period | None = None
    consolidate: Flag = False
    count_foreign: Flag = False
    checkpoints: CheckpointRule = CheckpointRule.WARN
    """The treatment of a preemptible job without checkpoints."""
    windows: Windows = ()
    """When the pool is open; empty: always."""
    reservations: Reservations = ()
    """Slots that are set aside for projects."""
    nodes: Annotated[
        NodesSection | None, BeforeValidator(switched), Field(json_schema_extra=_or_flag)
    ] = None
    """None: every job takes whole instances. True: nodes with the defaults."""


class DepartmentSection(Section):
    """Projects with a common quota; without a quota, it is the sum of theirs."""

    name: Name
    quota: Quota | None = None
    weight: Weight | None = None
    limit: Quota | None = None
    priority: Value = 0
    over_quota: Flag = True
    fairness: Fairness = Fairness.PROTECT_QUOTA


class RequestsSection(Section):
    """A project's prescriptions for its jobs' CreateTrainingJob requests."""

    defaults: Fields = Field(default={})
    fixed: Fields = Field(default={})
    roles: Patterns = ()
    images: Patterns = ()
    outputs: Patterns = ()
    """Prefixes: s3://bucket/path"""
    pools: tuple[Name, ...] = ()
    instance_types: dict[Workload, Patterns] = Field(default={})
    max_priority: Value | None = None
    waiting: Count = 0
    submissions: Count = 0
    approval: Flag = False


def _with_slot_hours(value: object) -> object:
    return value if value is None or isinstance(value, dict) else {"slot_hours": value}


def _or_number(schema: dict[str, Any]) -> None:
    own = {key: schema.pop(key) for key in [*schema]}
    schema["anyOf"] = [own["properties"]["slot_hours"], own]


class BudgetSection(Section):
    """The budget of a project for a calendar month (UTC). A number alone is a soft budget."""

    model_config = ConfigDict(json_schema_extra=_or_number)

    slot_hours: SlotHours
    beyond: Beyond = Beyond.SOFT


class ProjectSection(Section):
    """A project. The order of a document's projects is their age, the oldest first."""

    name: Name
    department: MaybeName = ""
    quota: Quota = 0
    weight: Weight | None = None
    limit: Quota | None = None
    priority: Value = 0
    over_quota: Flag = True
    min_runtime: Duration = 0
    budget: Annotated[BudgetSection | None, BeforeValidator(_with_slot_hours)] = None
    pools: tuple[Name, ...] = ()
    """The pools of jobs that name none, in order of preference."""
    viewers: Principals = ()
    members: Principals = ()
    admins: Principals = ()
    default_for: Principals = ()
    requests: RequestsSection = RequestsSection()


class ClassSection(Section):
    """A named priority."""

    name: Name
    value: Value
    demote_to: MaybeName = ""
    demote_after: Duration = 0
    chosen_by: tuple[Name, ...] = ()
    """The users and user groups that may choose the class. Empty: everybody."""


class UserGroupSection(Section):
    """Users with the same limits. Each member may hold that many slots."""

    name: Name
    limits: UserLimits = Field(default={})
    members: Principals = ()
    """Patterns of people. Users may also name the group."""


class UserSection(Section):
    """A person, with the slots that this person may hold."""

    name: Name
    limits: UserLimits = Field(default={})
    groups: tuple[Name, ...] = ()


class PeopleSection(Section):
    """How callers map to people, and the contact."""

    contact: MaybeName = ""
    """The contact for a larger quota, named in refusals."""

    session_roles: Annotated[tuple[SessionRole, ...], Field(max_length=MOST_PATTERNS)] = (
        NO_SHARING.session_roles
    )
    """The roles whose sessions are persons, because the identity provider names them."""


class SharingSection(Section):
    """How the queue treats weights and quotas."""

    weights: Flag = True
    unchecked: tuple[Subscription, ...] = ()


class SchedulerSection(Section):
    """How many jobs hold slots at once, and how often a job is tried (NVIDIA FLARE's words)."""

    max_jobs: Positive | None = None
    """A gang counts as one job."""
    max_schedule_count: Positive | None = None
    """Failed attempts after which a job is given up. Without it, attempts are not counted."""
    min_schedule_interval: Period = 10_000
    """Between the first two attempts; each further interval is twice as long."""
    max_schedule_interval: Period = 600_000

    @model_validator(mode="after")
    def _intervals_agree(self) -> Self:
        if self.max_schedule_interval < self.min_schedule_interval:
            shortest = self.min_schedule_interval / 1000
            message = f"at least the min_schedule_interval of {shortest:g} seconds is needed"
            refuse(DocumentFault(("max_schedule_interval",), message))
        return self


class FairShareSection(Section):
    """How past use counts, between projects and between users."""

    half_life: HalfLife = FairShare().half_life
    influence: Influence = FairShare().influence
    of: UseOf = FairShare().of


def _event(value: object) -> object:
    return JobEvent.FINISHED if value == JobState.COMPLETED else value


NamedEvent = Annotated[
    JobEvent,
    BeforeValidator(_event),
    WithJsonSchema({"type": "string", "enum": [*JobEvent, JobState.COMPLETED.value]}),
]
"""An event, or the state that a job has by then: `completed` is `finished`."""


class NotificationSection(Section):
    """A notification rule: jobs, events and receiver."""

    model_config = ConfigDict(populate_by_name=True)

    name: Name
    about: About = Field(alias="for")
    """Whose jobs."""
    to: To
    events: Annotated[tuple[NamedEvent, ...], Field(max_length=len(JobEvent))] = tuple(JobEvent)
    """The events reported as they happen. Empty: none, for a digest alone."""
    stuck_after: Period | None = None
    """A job that waits longer is stuck."""
    digest: Digest | None = None
    """Everything in one message as well."""


LimitsSection = dict[str, Any]
"""As PATCH /limits takes them (`limits_definition`)."""
