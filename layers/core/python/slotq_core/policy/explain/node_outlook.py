"""The outlook of jobs in pools with nodes: GPUs of nodes, and the jobs there by their own names.

See docs/policy-decisions.md#nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from slotq_core.gpu_amounts import gpus_number
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.nodes import NodeState
from slotq_core.model.reasons import outlook
from slotq_core.policy.explain.forecast import never_evicted
from slotq_core.policy.order import rank
from slotq_core.policy.state.candidates import is_settled, stays_for_its_user
from slotq_core.policy.state.nodes.node_index import NodeIndex
from slotq_core.policy.state.nodes.node_room import NodeRoom
from slotq_core.policy.state.nodes.nodes import Nodes
from slotq_core.policy.state.pool_room import PoolRoom

Cause = tuple[type[outlook.Spared], tuple[tuple[str, Any], ...]]
"""Why a job is spared, with the numbers of the reason."""


def own_nodes(nodes: Nodes, job: Job, pool: str) -> NodeIndex | None:
    """The nodes in the pool that the job may run on; None if there are none."""
    index = nodes.index(job, pool) if nodes.takes(job, pool) else None
    return index if index and index.rooms else None


def waits_for_a_node(nodes: Nodes, job: Job, pool: str) -> bool:
    """Whether GPUs that are free or come free on a node are enough for the job."""
    index = own_nodes(nodes, job, pool)
    return index is not None and any(
        room.fitting(job, now=False) and room.entrance.outlasts(job)
        for room in index.rooms.values()
    )


def room_on_nodes(index: NodeIndex, job: Job, pool: str) -> outlook.Room:
    """The GPUs of the node of the job's claim, else of the one that has most for the job."""
    claimed = job.claim.node if job.claim and job.claim.pool == pool else ""
    best = index.rooms.get(claimed) or max(
        index.rooms.values(),
        key=lambda room: (room.entrance.may_enter(job, now=False), room.left(job), room.name),
    )
    left = max(0, best.left(job))
    free = min(left, best.left(job, now=True))
    return outlook.Room(
        pool=pool,
        needed=gpus_number(job.gpus),
        free=gpus_number(free),
        coming=gpus_number(left - free),
        missing=gpus_number(max(0, job.gpus - left)),
        resource="gpus",
    )


def kept_on_node(nodes: Nodes, job: Job) -> Iterator[outlook.OnNode]:
    """What the node of the job's claim keeps for the job; nothing if the node is gone."""
    assert job.claim is not None
    pool, name = job.claim.pool, job.claim.node
    found = nodes.found.get((pool, name))
    if found is None:
        return
    node = found.node
    if node.state is not NodeState.STARTING:
        yield outlook.GpusOwed(
            pool=pool, job=job.name, project=job.project, node=name, gpus=job.gpus
        )
        return
    yield outlook.NodeStarts(
        pool=pool,
        job=job.name,
        project=job.project,
        node=name,
        gpus=job.gpus,
        since=node.started_at,
        took=_longest_start(nodes, pool),
    )


def _longest_start(nodes: Nodes, pool: str) -> int | None:
    """The longest start (ms) among the pool's nodes that have their instance; None: none has."""
    starts = (
        found.node.running_since - found.node.started_at
        for (at, _), found in nodes.found.items()
        if at == pool and found.node.running_since is not None
    )
    return max(starts, default=None)


def spared_on_nodes(
    nodes: Nodes,
    job: Job,
    room: PoolRoom,
    index: NodeIndex,
    in_another: Callable[[Job], Cause] | None,
) -> Iterator[tuple[Job, Cause, int | None]]:
    """Why each job on these nodes is not stopped for the job, and until when (ms). `in_another`:
    the cause for jobs of other projects; None: the job is in a gang, which takes nothing of them.
    """
    for at in index.rooms.values():
        for other in nodes.stand_ins.holders((at.pool, at.name)):
            yield _cause(nodes, job, other, room, at, in_another=in_another)


def _cause(
    nodes: Nodes,
    job: Job,
    other: Job,
    room: PoolRoom,
    at: NodeRoom,
    *,
    in_another: Callable[[Job], Cause] | None,
) -> tuple[Job, Cause, int | None]:
    if other.state is JobState.STOPPING:
        return other, (outlook.StopsAlready, ()), None
    if not nodes.may_evict(other):
        return other, never_evicted(other), None
    if not is_settled(other):
        return other, (outlook.StartUnanswered, ()), None
    protected, until = nodes.protection(other, room.pool)
    if protected:
        return other, (outlook.InMinRuntime, ()), until
    if other.project != job.project:
        cause = in_another(other) if in_another else (outlook.OfAnotherProject, ())
        helps = cause[0] is outlook.WouldNotHelp
        return other, _no_help(job, at) if helps else cause, None
    if not at.entrance.may_enter(job, now=False):
        return other, (outlook.OfAnotherPerson, ()), None
    if rank(other) < rank(job):
        return other, _no_help(job, at), None
    stays = stays_for_its_user(job, other, room.pool)
    return other, (outlook.OfTheSameUser if stays else outlook.NoLowerRank, ()), None


def _no_help(job: Job, at: NodeRoom) -> Cause:
    missing = gpus_number(max(0, job.gpus - at.left(job)))
    return outlook.WouldNotHelp, (("missing", missing),)
