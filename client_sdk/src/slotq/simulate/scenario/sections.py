"""The sections of a scenario file: one model for each, with one field for each key.

Pools, departments and projects are those of a queue's configuration (`wire.document`). Unknown keys
are refused. `checks` has the rules across sections.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from slotq.simulate.scenario.fields import (
    Amounts,
    Failure,
    Moment,
    Parts,
    Priority,
    SomeCapacity,
    Use,
    Vector,
)
from slotq_core import names
from slotq_core.admission.instances.instance_contents import counting, declared
from slotq_core.model.capacity.plans import PlanFacts, PlanStatus, PlanWindow
from slotq_core.model.capacity.reservations import Reservation
from slotq_core.model.capacity.work import WorkKind, work_of
from slotq_core.model.demand import Demand
from slotq_core.model.groups import elastic_fault
from slotq_core.model.jobs import Workload
from slotq_core.model.pools import CapacityKind, NodeRules, Pool, PoolHealth, PoolState
from slotq_core.model.sharing import NO_SHARING
from slotq_core.wire.document.faults import DocumentFault, refuse
from slotq_core.wire.document.sections import NodesSection, PoolSection, Section
from slotq_core.wire.document.values import (
    Count,
    Duration,
    Flag,
    GpuAmount,
    MaybeName,
    Name,
    Period,
    Positive,
    Seconds,
)
from slotq_core.wire.nodes.node_rules import NodeShare
from slotq_core.wire.pool_definition import (
    CHOICES,
    DURATIONS,
    LONGEST_NAME,
    SWITCHES,
    following,
)

INSTANCE_TYPE = "ml.scenario.large"
"""The instance type of pools that name none. Nobody knows what such instances contain."""


class PlanWindowSpec(Section):
    """A window of a training plan."""

    begins: Annotated[Seconds, Field(alias="from")]
    ends: Annotated[Seconds, Field(alias="to")]
    slots: Positive

    @model_validator(mode="after")
    def _ends_later(self) -> Self:
        if self.begins >= self.ends:
            refuse(DocumentFault(("to",), "a window ends after it begins"))
        return self


def _in_order(windows: tuple[PlanWindowSpec, ...]) -> tuple[PlanWindowSpec, ...]:
    for place, (first, second) in enumerate(pairwise(windows), start=1):
        if first.ends > second.begins:
            refuse(
                DocumentFault((place, "from"), "a window begins when the one before it has ended")
            )
    return windows


PlanWindows = Annotated[tuple[PlanWindowSpec, ...], AfterValidator(_in_order)]


def _windows(specs: Iterable[PlanWindowSpec]) -> tuple[PlanWindow, ...]:
    return tuple(PlanWindow(begins=spec.begins, ends=spec.ends, slots=spec.slots) for spec in specs)


def plan_arn(pool: str) -> str:
    """The training plan of a pool that names none."""
    return f"arn:aws:sagemaker:us-east-1:123456789012:training-plan/{pool}"


class ChangeSpec(Section):
    """A change of a pool at a moment. Keys that are missing leave their values unchanged."""

    at: Duration
    capacity: Amounts | None = None
    """The new capacity of the named resources. A bare number means slots."""
    foreign: Use | None = None
    state: PoolState | None = None
    plan_windows: PlanWindows | None = None
    """The windows of the pool's plan; empty: the plan is gone."""
    unhealthy: Count | None = None

    @model_validator(mode="after")
    def _changes_something(self) -> Self:
        if not self.model_fields_set - {"at"}:
            raise ValueError("a change needs capacity, foreign, state, plan_windows or unhealthy")
        return self

    def applied(self, pool: Pool) -> Pool:
        """The pool after the change."""
        bare = declared(pool)
        changed = replace(
            bare,
            capacity=Demand({**bare.capacity, **(self.capacity or {})}),
            foreign=pool.foreign if self.foreign is None else self.foreign,
            state=self.state or pool.state,
        )
        named = ("resources",) if {*(self.capacity or ())} - {"slots"} else ()
        after = following(bare, changed, named=named)
        (counted,) = counting([after], NO_SHARING, before=[pool])
        return replace(counted, health=replace(counted.health, plan=self._plan_of(pool)))

    def _plan_of(self, pool: Pool) -> PlanFacts | None:
        plan = pool.health.plan
        if plan is None:
            return None
        windows = plan.windows if self.plan_windows is None else _windows(self.plan_windows)
        unhealthy = plan.unhealthy if self.unhealthy is None else self.unhealthy
        status = PlanStatus.ACTIVE if windows else PlanStatus.NOT_FOUND
        return replace(plan, status=status, windows=windows, unhealthy=unhealthy)


class NodesSpec(NodesSection):
    """How the pool keeps nodes. Image, role and network decide nothing in a simulation."""

    gpus: Positive
    start_seconds: Duration = 0
    """How long a node's start takes."""
    uids: Flag = True
    """Whether each job has a user id of its own. If not, a node takes one person's jobs."""

    @property
    def rules(self) -> NodeRules:
        shared = self.share is NodeShare.POOL
        return NodeRules(gpus=self.gpus, keep=self.keep, shared=shared)


class PoolSpec(PoolSection):
    name: Annotated[Name, Field(max_length=LONGEST_NAME)]
    capacity: SomeCapacity
    foreign: Use = Demand()
    """The part that training jobs outside the queue occupy."""
    changes: tuple[ChangeSpec, ...] = ()
    start_seconds: Duration = 0
    """How long it takes until an attempt has its instances. The queue knows that from the
    beginning."""
    stop_seconds: Duration = 0
    release_seconds: Duration = 0
    """How long it takes until released warm instances are gone."""
    nodes: NodesSpec | None = None
    """None: every job takes whole instances."""
    plan_windows: PlanWindows = ()
    """When the pool's training plan has instances."""
    unhealthy: Count = 0
    """How many of them are broken."""

    @model_validator(mode="before")
    @classmethod
    def _has_a_plan(cls, values: object) -> object:
        """Name a plan for a pool that names none: it has the pool's name."""
        if isinstance(values, dict) and values.get("capacity_kind") == CapacityKind.PLAN:
            return {"plan_arn": plan_arn(str(values.get("name", ""))), **values}
        return values

    @model_validator(mode="after")
    def _plan_is_whole(self) -> Self:
        if self.capacity_kind is CapacityKind.PLAN:
            if not self.plan_windows:
                refuse(DocumentFault(("plan_windows",), "a pool of a training plan has windows"))
            return self
        for key in ("plan_windows", "unhealthy"):
            if key in self.model_fields_set:
                refuse(DocumentFault((key,), "only a pool with capacity_kind plan has a plan"))
        for place, change in enumerate(self.changes):
            for key in {"plan_windows", "unhealthy"} & change.model_fields_set:
                message = "only a pool with capacity_kind plan has a plan"
                refuse(DocumentFault(("changes", place, key), message))
        return self

    @model_validator(mode="after")
    def _starts_are_known(self) -> Self:
        if self.start_seconds and self.capacity_kind is CapacityKind.SPOT:
            message = "leave this out: the interruptions of jobs say when spot instances come"
            refuse(DocumentFault(("start_seconds",), message))
        return self

    @property
    def pool(self) -> Pool:
        """The pool at the beginning."""
        settings = {name: getattr(self, name) for name in (*DURATIONS, *SWITCHES, *CHOICES)}
        instance_type = self.instance_type or INSTANCE_TYPE
        plan = None
        if self.plan_windows:
            plan = PlanFacts(
                arn=self.plan_arn,
                status=PlanStatus.ACTIVE,
                instance_type=instance_type,
                windows=_windows(self.plan_windows),
                unhealthy=self.unhealthy,
            )
        known = (self.start_seconds,) if self.start_seconds else ()
        return Pool(
            name=self.name,
            instance_type=instance_type,
            health=PoolHealth(plan=plan, starts=known),
            capacity=self.capacity,
            properties=self.properties,
            foreign=self.foreign,
            nodes=self.nodes.rules if self.nodes else None,
            windows=self.windows,
            plan_arn=self.plan_arn,
            reservations=self._reserved,
            **{**settings, "count_foreign": True},
        )

    @property
    def _reserved(self) -> tuple[Reservation, ...]:
        if not self.reservations:
            return ()
        from slotq_core.wire.capacity.reservations import defined  # Few pools have reservations.

        return defined(self.name, self.reservations)


class GroupSpec(Section):
    """A gang, or a sweep if `max_parallel` is set. The members are the jobs that name the group."""

    name: Name
    min_members: Positive | None = None
    mandatory: tuple[Name, ...] = ()
    same_pool: Flag = False
    elastic: Flag = False
    ends_with: Name | None = None
    """The member whose end ends the gang."""
    heartbeat_seconds: Period | None = None
    """How long a running member that reports may be silent; then it is stopped and has failed."""
    max_parallel: Positive | None = None

    @model_validator(mode="after")
    def _gang_or_sweep(self) -> Self:
        of_gangs = {"min_members", "mandatory", "same_pool", "elastic", "ends_with"}
        of_gangs.add("heartbeat_seconds")
        mixed = of_gangs & self.model_fields_set
        if self.max_parallel is not None and mixed:
            message = "a group with max_parallel is a sweep: this key is for gangs"
            refuse(*(DocumentFault((key,), message) for key in sorted(mixed)))
        if self.elastic and (fault := elastic_fault(self.min_members, self.ends_with)):
            refuse(DocumentFault((fault[0],), fault[1]))
        return self


class InterruptionSpec(Section):
    """SageMaker takes the spot instances of an attempt back, or has none at its start."""

    attempt: Positive = 1
    after: Duration
    """How long the attempt has kept its instances; 0: it has none at its start."""
    lasts: Period | None = None
    """The time until it gets others. None: it gets none."""


class JobSpec(Section):
    synonyms: ClassVar[Mapping[str, str]] = {
        "at": "submit_at",
        "submit": "submit_at",
        "submitted": "submit_at",
        "entry": "submit_at",
        "arrival": "submit_at",
        "start": "submit_at",
        "time": "submit_at",
        "duration": "runtime",
        "seconds": "runtime",
        "length": "runtime",
        "work": "runtime",
        "instances": "slots",
        "nodes": "slots",
        "cancel": "cancel_at",
        "dependson": "after",
        "needs": "after",
        "owner": "user",
        "submitter": "user",
    }

    name: Name
    project: Name | None = None
    group: Name | None = None
    after: tuple[Name, ...] = ()
    """Jobs, and groups as `group:NAME`, that must complete before this job."""
    after_any: tuple[Name, ...] = ()
    """The same, of what must end before this job, in whatever way."""
    workload: Annotated[Workload, Field(alias="class")] = Workload.TRAINING
    priority: Priority | None = None
    """None: AUTO with priority classes, else 0."""
    slots: Positive = 1
    demand: Vector | None = None
    gpus: GpuAmount = 0
    """The GPUs of one node, or a part of one GPU, in pools with nodes; 0: whole instances."""
    pools: tuple[Name, ...] = ()
    parts: Parts = Field(default={})
    """The demand in each of several pools that the job occupies at once."""
    runtime: Duration | None = None
    """The duration of the work. None: the job runs for ever."""
    checkpoint: Flag = True
    retries: Count = 0
    fails: tuple[Failure, ...] = ()
    """The failures of the first attempts, one entry for each."""
    interruptions: tuple[InterruptionSpec, ...] = ()
    """Those of its attempts in spot pools, in order."""
    max_runtime: Period | None = None
    """Its MaxRuntimeInSeconds, which decides where it fits into a pool's hours, how long it waits
    for spot instances, and whether it may pass a job that a pool drains for. None: SageMaker's
    default, and no bound where pools drain."""
    preemptible: Flag | Literal["semi"] = True
    min_runtime: Duration = 0
    user: MaybeName = ""
    role: MaybeName = ""
    """The execution role. A role that cannot be assumed causes back-off in its pool."""
    submit_at: Seconds | None = None
    cancel_at: Seconds | None = None
    release_seconds: Duration | None = None
    """The time to release slots after a request to stop (`suspend_grace`). None: the job does not
    release."""
    silent_from: Duration | None = None
    """The time after which each attempt reports nothing more (`stall_after`). None: it reports all
    the time."""
    running_since: Seconds | None = None
    entry_at: Seconds | None = None
    pool: Name | None = None

    @model_validator(mode="before")
    @classmethod
    def _processes(cls, values: object) -> object:
        """Processing jobs have no checkpoints, and are evicted only if they say so."""
        if isinstance(values, dict) and work_of(str(values.get("name"))) is WorkKind.PROCESSING:
            return {"checkpoint": False, "preemptible": False, **values}
        return values

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        faults = [*_job_faults(self), *_gpus_faults(self), *_interruption_faults(self)]
        if faults:
            refuse(*faults)
        return self

    @property
    def needed(self) -> Demand:
        if self.parts:
            return sum(self.parts.values(), Demand())
        return self.demand if self.demand is not None else _slots(self.slots)

    def held_in(self, pool: str) -> dict[str, Demand]:
        """The demand held by the running job in each pool, if admitted to `pool`."""
        return self.parts or {pool: self.needed}

    @property
    def at(self) -> str | None:
        """The pool of a job that runs at the start: the first of its parts, if it has any."""
        if self.running_since is None:
            return None
        return next(iter(self.parts), self.pool)


@cache
def _slots(amount: int) -> Demand:
    """A demand of some slots, shared by all jobs: plans compare demands often, and comparing an
    object with itself is fast."""
    return Demand(slots=amount)


def _job_faults(job: JobSpec) -> Iterator[DocumentFault]:
    """The faults between the keys of one job."""
    if not names.is_job(job.name):
        yield DocumentFault(
            ("name",),
            f"SageMaker does not accept the name '{job.name}': use {names.RULE}",
        )
    if job.demand is not None and "slots" in job.model_fields_set:
        yield DocumentFault(
            ("slots",), "slots is short for demand: {slots: n}; give one of the two"
        )
    for key in ("slots", "demand", "pools", "pool", "group") if job.parts else ():
        if key in job.model_fields_set and getattr(job, key) is not None:
            yield DocumentFault(
                (key,),
                ("leave this out: parts give pools and demands, and a job with parts has no group"),
            )
    if (job.submit_at is None) == (job.running_since is None):
        yield DocumentFault((), f"give job '{job.name}' either submit_at or running_since")
        return
    if job.running_since is None:
        for key in ("pool", "entry_at"):
            if getattr(job, key) is not None:
                yield DocumentFault((key,), f"{key} belongs to running_since")
    else:
        yield from _running_faults(job, job.running_since)


def _gpus_faults(job: JobSpec) -> Iterator[DocumentFault]:
    """The faults of a job that takes GPUs of a node."""
    for key in ("slots", "demand", "parts", "running_since") if job.gpus else ():
        if key in job.model_fields_set and getattr(job, key) is not None:
            yield DocumentFault((key,), "leave this out: a job with gpus starts on a node")


def _interruption_faults(job: JobSpec) -> Iterator[DocumentFault]:
    """The faults between the interruptions of one job."""
    before: dict[int, InterruptionSpec] = {}
    for place, spec in enumerate(job.interruptions):
        earlier = before.get(spec.attempt)
        if earlier and not spec.after:
            yield DocumentFault(
                ("interruptions", place, "after"),
                "only the first of an attempt may be at its start",
            )
        if earlier and earlier.lasts is None:
            yield DocumentFault(
                ("interruptions", place), "the one before it has no lasts, so it never ends"
            )
        if not earlier and not spec.after and spec.attempt == 1 and job.running_since is not None:
            yield DocumentFault(
                ("interruptions", place, "after"), "the job runs at the start, so it has instances"
            )
        before[spec.attempt] = spec


def _running_faults(job: JobSpec, since: int) -> Iterator[DocumentFault]:
    """The faults of a job that runs at the start."""
    for key in ("after", "after_any"):
        if getattr(job, key):
            yield DocumentFault((key,), "it runs at the start, so it cannot come after a job")
    first = next(iter(job.fails), None)
    if first is not None and not (isinstance(first, int) and first > -since):
        yield DocumentFault(
            ("fails", 0), "it runs at the start, so it must fail later or not at all"
        )
    if since > 0:
        yield DocumentFault(("running_since",), "it runs at the start, so this must be at most 0")
    if job.at is None:
        yield DocumentFault(
            (), f"job '{job.name}' runs at the start (running_since): give its pool"
        )
    elif job.pools and job.pool not in job.pools:
        yield DocumentFault(
            ("pool",), f"it runs in pool '{job.pool}', which is not among its pools"
        )


class WhySpec(Section):
    """The expected status of a waiting job. Only the given keys are compared."""

    job: Name
    reason: Name | None = None
    """The code of the reason."""
    place: Positive | None = None
    evictions: dict[str, Count] = Field(default={})
    """Slots in the job's pools, by the reason that protects their holders from eviction."""
    reserved: dict[str, Count] = Field(default={})
    """Slots kept for other jobs, by job."""
    earliest: Seconds | None = None
    """The earliest known time. Null: none is known."""
    also: Name | None = None
    """The code of the second cause. Null: none is named."""
    head: Name | None = None
    """The job that the reason `behind_in_line` names. Null: none is named."""


class Expectation(Section):
    synonyms: ClassVar[Mapping[str, str]] = {
        "t": "at",
        "time": "at",
        "when": "at",
        "state": "states",
        "start": "started",
    }

    at: Moment
    states: dict[str, str] = Field(default={})
    started: dict[str, list[Seconds]] = Field(default={})
    evictions: dict[str, Count] = Field(default={})
    running_slots: dict[str, Count] = Field(default={})
    """The slots of running jobs, by project."""
    warned: dict[str, list[Seconds]] = Field(default={})
    """When projects have come near their budgets."""
    why: tuple[WhySpec, ...] = ()
