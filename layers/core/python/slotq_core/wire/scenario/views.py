"""Model -> JSON: the whole queue at one moment. `pages` reads it back without loss.

Moments are ISO 8601 in UTC, durations seconds. What has its default is left out.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from slotq_core.model.attempts import Attempt
from slotq_core.model.jobs import Job, Preemptible
from slotq_core.model.pools import Pool, PoolHealth
from slotq_core.model.projects import NO_PAST_USE, NOTHING_SPENT, PastUse, Spending
from slotq_core.model.sharing import Settings
from slotq_core.model.snapshot import QueueSnapshot
from slotq_core.timestamps import iso, seconds
from slotq_core.wire import VERSION
from slotq_core.wire.base import BaseModel
from slotq_core.wire.document.views import Document
from slotq_core.wire.document.writing import written
from slotq_core.wire.views.forms import view_of
from slotq_core.wire.views.jobs import SharedJobView
from slotq_core.wire.views.pools import PoolHealthView, health_view

Amounts = dict[str, int]


class SnapshotPoolView(BaseModel):
    """The state of a pool besides its configuration."""

    name: str
    foreign: Amounts = Field(default={})
    """Used by training jobs outside the queue."""
    contents: list[str] = Field(default=[])
    """The resources that are counted because a quota names them."""
    health: PoolHealthView | None = None
    """None: nothing was learned of it."""


class StopView(BaseModel):
    cause: str
    by: str = ""
    """The job that gets the slots, or the person who wanted it."""
    at: str
    sent: bool = False
    grace_until: str | None = None


class SnapshotAttemptView(BaseModel):
    """The attempt that a job holds slots with."""

    number: int
    pool: str
    instance_type: str = ""
    admitted_at: str
    waiting_since: str | None = None
    node: str = ""
    """The node that it runs on; empty: it has instances of its own."""
    node_generation: int = 0
    gpu_ids: list[int] = Field(default=[])
    """The GPUs of the node that it holds, by index."""
    gpu_part: int | float = 0
    """The part that it holds of its one GPU; 0: whole GPUs."""
    node_gpus: int = 0
    """The GPUs of the node in all."""
    created: bool = False
    """Whether SageMaker has accepted it."""
    probes: bool = False
    pending_since: str | None = None
    running_since: str | None = None
    """Later by all interruptions; None: it starts, or is interrupted."""
    interrupted_since: str | None = None
    ran_before: float = 0
    """While it is interrupted: how long (s) it has run."""
    resumed_at: str | None = None
    """When it last ran again after an interruption."""
    interrupted_for: float = 0
    """How long (s) it was interrupted, in all, without an interruption that goes on."""
    checkpoint_at: str | None = None
    reported: bool = False
    silent_since: str | None = None
    heartbeat_missed: bool = False
    """Whether its group's heartbeat has passed since."""
    stalled_at: str | None = None
    warm_key: str = ""
    """Jobs with this key may start on its instances when it ends; empty: they do not stay."""
    keep_warm: float = 0
    """How long (s) they stay, if there is a key."""
    stop: StopView | None = None


class ClaimView(BaseModel):
    """Slots owed to a job that others were evicted for."""

    pool: str
    amount: Amounts
    since: str
    priority_class: str = ""
    moved: bool = False
    node: str = ""
    """The node where GPUs are owed; empty: the amount is slots."""
    gpu_ids: list[int] = Field(default=[])
    """The GPUs of the node that are owed, by index."""


class SnapshotJobView(SharedJobView):
    """A job that has not ended, with all that decisions may rest on."""

    preemptible: Preemptible = True
    min_runtime: float = 0
    retries: int = 0
    withheld: bool = False
    """Whether the caller may not see the job: names of the job, its user and its group are
    stand-ins."""
    after: list[str] = Field(default=[])
    """The jobs that must still complete before this one waits for slots."""
    after_any: list[str] = Field(default=[])
    """The jobs that must still end, in whatever way."""
    auto: bool = False
    """Whether the class is chosen at each start."""
    ran_before_class: float = 0
    checkpoints: bool = True
    """Whether an evicted attempt goes on from a checkpoint."""
    gpus: int | float = 0
    """The GPUs of one node that the job takes, or its part of one GPU; 0: it takes whole
    instances."""
    tenant: str = ""
    """The same text for jobs that may share a node."""
    warm_key: str = ""
    """The same text for jobs that may start on each other's warm instances."""
    keep_alive: float | None = None
    """How long (s) the request itself keeps its instances; None: it does not say."""
    longest_attempt: float = 0
    """The longest that one attempt on a node may run; 0: not known."""
    runtime_bound: float = 0
    """The longest that all of its attempts may run together, where pools drain for jobs; 0: no
    bound."""
    user: str = ""
    role: str = ""
    attempts: int = 0
    evictions: int = 0
    evicted_at: list[str] = Field(default=[])
    """When other jobs have lately taken its slots."""
    schedule_attempts: int = 0
    faults: int = 0
    refused_in: list[str] = Field(default=[])
    """The pools in which a quota of something else refused the last start."""
    denied_in: list[str] = Field(default=[])
    """The pools among `refused_in` where that quota was 0."""
    releases: list[str] = Field(default=[])
    ran: float = 0
    """Running time of the attempts that have ended."""
    reports: bool = False
    line_by_user: bool = False
    not_before: str | None = None
    claim: ClaimView | None = None
    attempt: SnapshotAttemptView | None = None
    eta_seconds: float | None = None
    """The remaining time that the job reports."""
    max_runtime: float | None = None
    """The longest that it may run in all; None: unknown."""


class SnapshotGroupView(BaseModel):
    name: str
    members: list[str]
    min_members: int | None = None
    mandatory: list[str] = Field(default=[])
    same_pool: bool = False
    elastic: bool = False
    ends_with: str = ""
    """The member with which the gang ends; empty: each has its own end."""
    heartbeat: float | None = None
    """How long a running member that reports may be silent, in seconds; None: as its pool says."""
    max_parallel: int | None = None
    ended: dict[str, str] = Field(default={})
    """The state of each member that has ended."""


class YieldedView(BaseModel):
    """When a job of this project, user and rank last yielded to a time slice."""

    user: str
    workload: str
    priority: int
    at: str
    project: str | None = None
    """Null: it counts in every project (kept by an earlier version)."""


class SnapshotNodeView(BaseModel):
    """A node: an instance of a pool that stays and runs jobs that take some of its GPUs."""

    name: str
    pool: str
    generation: int
    state: str
    """`starting`, `ready`, `draining` or `stopping`."""
    tenant: str
    """As of the jobs that may run there."""
    project: str = ""
    demand: Amounts
    """What it takes of the pool."""
    contents: Amounts = Field(default={})
    """What the instance has."""
    started_at: str
    running_since: str | None = None
    idle_since: str | None = None
    """When its last job ended; null: jobs are on it, or none ever was."""
    leaves_at: str | None = None
    """When it reaches SageMaker's longest runtime."""
    one_person: bool = False
    """Whether it takes the jobs of one person at a time."""


class SnapshotWarmView(BaseModel):
    """Instances that stay warm."""

    pool: str
    instance_type: str = ""
    demand: Amounts
    """What they take of the pool."""
    key: str
    """As of the jobs that may start on them."""
    since: str
    until: str
    """When SageMaker lets them go."""
    released_at: str | None = None
    """Since when they are being released; null: they are not."""
    released_for: str = ""
    """The job that they are released for, if any."""
    reused: bool = False
    """Whether a training job outside the queue runs on them."""


class SpentView(BaseModel):
    """The spending of projects with a budget in a month, by attempts that have ended."""

    month: str
    slot_seconds: dict[str, float] = Field(default={})
    warned: list[str] = Field(default=[])


class PastUseView(BaseModel):
    """The parts of projects and users in past use, as of the last full hour."""

    at: str
    parts: dict[str, dict[str, int]] = Field(default={})
    """64ths of all use, by pool (empty: all pools together) and project."""
    slot_seconds: dict[str, int] = Field(default={})
    """All use by pool; old use counts less."""
    users: dict[str, dict[str, int]] = Field(default={})
    """64ths of a project's use, by project and user. Only users whose jobs are shown."""
    user_slot_seconds: dict[str, int] = Field(default={})
    """All use by project, where that of users counts."""


class ScenarioView(BaseModel):
    """A snapshot of the queue: the input of the next pass."""

    version: int
    at: str
    revision: int
    """The configuration's."""
    withheld: int = 0
    """How many jobs have stand-in names, because the caller may not see them. The limits of their
    users are not shown."""
    left_out: int = 0
    """How many jobs there are besides those in `jobs` and the pages before, at least."""
    next: str | None = None
    """Cursor of the page with the further jobs; null: there are none. Where the queue has changed
    meanwhile, the answer is 409 `outdated`: begin with the first page again."""
    configuration: Document
    """The configuration's document. Only the first page has it, `pools`, `spent` and
    `past_use`."""
    pools: list[SnapshotPoolView]
    jobs: list[SnapshotJobView]
    """The jobs that have not ended: first those that hold slots, then those that wait."""
    groups: list[SnapshotGroupView] = Field(default=[])
    yields: list[YieldedView] = Field(default=[])
    nodes: list[SnapshotNodeView] = Field(default=[])
    """Every node. Only the first page has them."""
    warm: list[SnapshotWarmView] = Field(default=[])
    """The instances that stay warm, the first to go first. Only the first page has them."""
    spent: SpentView | None = None
    past_use: PastUseView | None = None


def scenario_view(queue: QueueSnapshot, settings: Settings, revision: int) -> ScenarioView:
    return ScenarioView(
        version=VERSION,
        at=iso(queue.at),
        revision=revision,
        withheld=len(queue.withheld),
        left_out=queue.left_out,
        configuration=written(settings),
        pools=[_pool(pool) for pool in queue.pools],
        jobs=[_job(job, queue) for job in queue.jobs],
        groups=[view_of(group, SnapshotGroupView) for group in queue.groups],
        yields=[view_of(yielded, YieldedView) for yielded in queue.yields],
        nodes=[view_of(node, SnapshotNodeView, state=node.state.value) for node in queue.nodes],
        warm=[view_of(slot, SnapshotWarmView, reused=bool(slot.reused_by)) for slot in queue.warm],
        spent=None if queue.spent == NOTHING_SPENT else _spent(queue.spent),
        past_use=None if queue.past_use == NO_PAST_USE else _past_use(queue.past_use),
    )


def _spent(spent: Spending) -> SpentView:
    return SpentView(
        month=iso(spent.month),
        slot_seconds={name: seconds(amount) for name, amount in spent.slot_ms.items()},
        warned=sorted(spent.warned),
    )


def _past_use(past: PastUse) -> PastUseView:
    return PastUseView(
        at=iso(past.at),
        parts={scope: dict(own) for scope, own in past.parts.items()},
        slot_seconds=dict(past.slot_seconds),
        users={project: dict(own) for project, own in past.users.items()},
        user_slot_seconds=dict(past.user_slot_seconds),
    )


def _pool(pool: Pool) -> SnapshotPoolView:
    health = None if pool.health == PoolHealth() else health_view(pool.health)
    return view_of(pool, SnapshotPoolView, health=health)


def _job(job: Job, queue: QueueSnapshot) -> SnapshotJobView:
    return view_of(
        job,
        SnapshotJobView,
        withheld=job.name in queue.withheld,
        user=job.person,
        claim=view_of(job.claim, ClaimView) if job.claim else None,
        attempt=_attempt(job.attempt) if job.attempt else None,
        eta_seconds=_seconds_of(queue.etas, job),
        max_runtime=_seconds_of(queue.limits, job),
    )


def _attempt(attempt: Attempt) -> SnapshotAttemptView:
    stop = view_of(attempt.stop, StopView) if attempt.stop else None
    return view_of(attempt, SnapshotAttemptView, stop=stop)


def _seconds_of(known: Mapping[str, int], job: Job) -> float | None:
    return seconds(known[job.name]) if job.name in known else None
