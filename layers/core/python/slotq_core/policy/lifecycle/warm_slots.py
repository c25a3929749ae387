"""Warm slots: the instances of ended attempts that SageMaker keeps for matching training jobs.

A warm slot is free for policy: nobody waits longer, or starts earlier, because instances are warm.
Only a start that does not match must wait until they are gone, as for a stopping job.

See docs/warm.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import attrgetter

from slotq_core.lifecycle import copied
from slotq_core.model.attempts import Attempt, AttemptOutcome
from slotq_core.model.jobs import Job
from slotq_core.model.pools import CapacityKind, Pool, PoolState, WarmSlot
from slotq_core.model.snapshot import Snapshot
from slotq_core.usage.attempt_use import charged_to

TRIED_AGAIN_AFTER = 3_600_000
"""How long (ms) attempts keep nothing warm in a pool, after the account had no quota for that."""

SETTLES_WITHIN = 120_000
"""How long (ms) SageMaker may take to show what has become of warm instances."""

_KEPT_AFTER = frozenset(
    {
        AttemptOutcome.COMPLETED,
        AttemptOutcome.EVICTED,
        AttemptOutcome.CANCELLED,
        AttemptOutcome.STOPPED,
        AttemptOutcome.RELEASED,
        AttemptOutcome.STALLED,
        AttemptOutcome.FAILED,
        AttemptOutcome.MAX_RUNTIME,
    }
)
"""The ends after which SageMaker keeps the instances: not after a fault of its own."""


def kept_for(job: Job, pool: Pool, now: int) -> tuple[str, int]:
    """The key of an attempt that starts in the pool, and how long (ms) its instances stay warm. An
    empty key: the request stays as it is."""
    if not job.warm_key or job.parts:
        return "", 0
    refused = pool.health.warm_refused_at
    unable = refused is not None and refused <= now < refused + TRIED_AGAIN_AFTER
    if unable or pool.nodes is not None or pool.capacity_kind is not CapacityKind.ON_DEMAND:
        return job.warm_key, 0
    if pool.keep_warm is None:
        return job.warm_key, job.keep_alive or 0
    asked = pool.keep_warm if job.keep_alive is None else job.keep_alive
    return job.warm_key, min(asked, pool.keep_warm)


def left_by(job: Job, ended: Attempt) -> WarmSlot | None:
    """The warm slot that an ended attempt leaves. `job`: as it ran."""
    at, ran = ended.ended_at, ended.running_since is not None
    if at is None or not (ran and ended.warm_key and ended.keep_warm):
        return None
    if ended.outcome not in _KEPT_AFTER or ended.node:
        return None
    return WarmSlot(
        pool=ended.pool,
        training_job=ended.training_job,
        job=job.name,
        number=ended.number,
        project=job.project,
        submitter=charged_to(job),
        workload=job.workload.value,
        instance_type=ended.instance_type,
        demand=job.demand,
        key=ended.warm_key,
        since=at,
        until=at + ended.keep_warm,
    )


def fits(job: Job, slot: WarmSlot) -> bool:
    """Whether SageMaker starts the job on these instances."""
    return (
        slot.idle and bool(job.warm_key) and (job.warm_key, job.demand) == (slot.key, slot.demand)
    )


def is_kept(slot: WarmSlot, pool: Pool, now: int) -> bool:
    """Whether the pool still keeps such instances warm."""
    if pool.nodes is not None or pool.state is PoolState.DRAINED:
        return False
    if pool.capacity_kind is not CapacityKind.ON_DEMAND:
        return False
    if slot.instance_type != pool.instance_type:
        return False
    return pool.keep_warm is None or now < slot.since + pool.keep_warm


def first_to_go(slots: Iterable[WarmSlot]) -> tuple[WarmSlot, ...]:
    """The slots in the order in which plans give and release them."""
    return tuple(sorted(slots, key=attrgetter("until", "training_job")))


def kept_until(snapshot: Snapshot, now: int) -> Iterator[int]:
    """When (ms) pools keep idle instances no longer that SageMaker would still keep."""
    pools = {pool.name: pool for pool in snapshot.pools}
    for slot in snapshot.warm:
        pool = pools.get(slot.pool)
        if pool is None or pool.keep_warm is None or not slot.idle:
            continue
        if now < (at := slot.since + pool.keep_warm) < slot.until:
            yield at


def released(slot: WarmSlot, by: str, now: int) -> WarmSlot:
    """The slot with the durable intent to release its instances."""
    return copied(slot, released_at=now, released_for=by)


def taken(slot: WarmSlot, training_job: str, now: int) -> WarmSlot:
    """The slot after the start of an attempt on it, which holds the pool's capacity itself."""
    return copied(slot, taken_by=training_job, taken_at=now)
