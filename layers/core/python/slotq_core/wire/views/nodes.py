"""Nodes as JSON: their state, and the jobs on their GPUs."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pydantic import Field

from slotq_core.gpu_amounts import WHOLE, gpus_number
from slotq_core.model.attempts import GpuBound
from slotq_core.model.jobs import Job
from slotq_core.model.nodes import Node
from slotq_core.model.pools import Pool
from slotq_core.timestamps import iso, iso_or_none
from slotq_core.wire import VERSION
from slotq_core.wire.base import BaseModel


class NodeJobView(BaseModel):
    """A job on a node, or one that waits for GPUs there."""

    name: str
    """Empty: the caller may not see the job."""
    project: str = ""
    state: str
    gpus: int | float
    """How many GPUs it has, or its part of one GPU."""
    gpu_ids: list[int] = Field(default=[])
    """The GPUs that it has, or waits for, by their indexes."""
    gpu_bound: str = GpuBound.NONE.value
    """What holds it to its part of a GPU: `mps`, `framework`, or `none`."""


class NodeView(BaseModel):
    """One node: an instance of a pool that stays when a job ends."""

    pool: str
    name: str
    state: str
    """`starting`, `ready`, `draining`: no job starts there any more, or `stopping`."""
    instance_type: str
    project: str = ""
    """Whose jobs it runs; empty: those of every project of the pool, or of a queue without
    projects."""
    gpus: int
    """The GPUs of the node."""
    free: list[int]
    """Those of which no job has a part, by their indexes."""
    left: list[int | float] = Field(default=[])
    """What is free of each GPU, by index: 1, a part, or 0."""
    jobs: list[NodeJobView]
    """The jobs on the node, in the order of their GPUs."""
    owed: list[NodeJobView] = Field(default=[])
    """The waiting jobs with a claim to GPUs of the node."""
    one_person: bool = False
    """Whether it takes the jobs of one person at a time: its agent does not run as root."""
    training_job: str
    """The node's own training job in SageMaker."""
    started_at: str
    """When the node got its slot."""
    running_since: str | None = None
    idle_since: str | None = None
    """When its last job ended; None: jobs are on it."""
    kept_until: str | None = None
    """When it ends if no job starts there; None: jobs are on it."""
    leaves_at: str | None = None
    """When SageMaker's longest runtime ends it; None: not known yet."""
    lease_until: str | None = None
    """Until when it may run jobs without another report; None: it has not reported yet."""

    problems: list[str] = Field(default=[])
    """What its agent said last of its troubles: a bucket or a route that does not answer, a right
    that it lacks. At most five."""


class NodesView(BaseModel):
    version: int = VERSION
    nodes: list[NodeView]
    """By pool, in the order of the pools, and name."""


def node_view(
    node: Node,
    pool: Pool,
    *,
    jobs: Iterable[Job],
    claimants: Iterable[Job],
    sees: Callable[[Job], bool],
) -> NodeView:
    """`jobs` and `claimants`: those on the node, and those with a claim to it."""
    on_it = sorted(jobs, key=lambda job: job.attempt.gpu_ids if job.attempt else ())
    left = dict.fromkeys(range(node.contents["gpus"]), WHOLE)
    for attempt in (job.attempt for job in on_it if job.attempt):
        left.update({n: left.get(n, 0) - amount for n, amount in attempt.gpus_held.items()})
    keep = pool.nodes.keep if pool.nodes else 0
    idle = node.idle_since
    return NodeView(
        pool=node.pool,
        name=node.name,
        state=node.state.value,
        instance_type=pool.instance_type,
        project=node.project,
        gpus=node.contents["gpus"],
        free=[index for index, amount in left.items() if amount == WHOLE],
        left=[gpus_number(amount) for amount in left.values()],
        jobs=[_job(job, sees) for job in on_it],
        owed=[_job(job, sees) for job in claimants],
        one_person=node.one_person,
        training_job=node.training_job,
        started_at=iso(node.started_at),
        running_since=iso_or_none(node.running_since),
        idle_since=iso_or_none(idle),
        kept_until=None if idle is None else iso(idle + keep),
        leaves_at=iso_or_none(node.leaves_at),
        lease_until=iso_or_none(node.lease_until),
        problems=[*node.problems],
    )


def _job(job: Job, sees: Callable[[Job], bool]) -> NodeJobView:
    held = job.attempt or job.claim
    return NodeJobView(
        name=job.name if sees(job) else "",
        project=job.project,
        state=job.state.value,
        gpus=gpus_number(job.gpus),
        gpu_ids=[*held.gpu_ids] if held else [],
        gpu_bound=(job.attempt.gpu_bound if job.attempt else GpuBound.NONE).value,
    )
