"""What a pool's capacity errors mean for the pool (DESIGN 5.5).

"The pool itself backs off and is probed by one job at a time." A pool whose account limit turns out
smaller than configured runs at the learned limit, and the configured one is tried again later.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from slotq_core.model.jobs import Job, JobState
from slotq_core.model.pools import HEALTHY, Pool, PoolHealth
from slotq_core.policy.lifecycle.retry import LONGEST_BACKOFF, backoff
from slotq_core.timestamps import FAR_OFF

LEARNED_FOR = 1_800_000
"""How long a learned limit counts before the configured capacity is tried again (ms)."""

PROBE_FOR = LONGEST_BACKOFF
"""How long a start may keep its pool closed while SageMaker says nothing of it (ms). It may stay
Pending for ever where the pool has no `pending_timeout`; then another may try."""


def after_capacity_error(
    pool: Pool, *, now: int, message: str, limit: int | None = None
) -> PoolHealth:
    """`limit`: the account's service limit in instances, where SageMaker named it."""
    errors = pool.health.errors + 1
    health = replace(pool.health, errors=errors, not_before=now + backoff(errors), message=message)
    if limit is not None and limit < pool.capacity.slots:
        health = replace(health, learned=limit, learned_until=now + LEARNED_FOR)
    return health


def after_a_start(pool: Pool) -> PoolHealth:
    """One of its training jobs has its instances: there is capacity, but for a learned limit."""
    health = pool.health
    if not health.errors:
        return health
    rights = health.missing_rights
    if health.learned is None:
        return replace(HEALTHY, missing_rights=rights)
    return replace(health, errors=0, not_before=None)


def backs_off(pool: Pool, now: int) -> bool:
    """Nothing starts there for now. (No back-off is so long that it could end `FAR_OFF`.)"""
    until = pool.health.not_before
    return until is not None and now < until <= now + FAR_OFF


def probe(pool: Pool, active: Iterable[Job], now: int) -> Job | None:
    """The job that probes the pool: until it has its instances or has ended, but for no longer than
    `PROBE_FOR`, nothing else starts there."""
    if not pool.health.errors:
        return None
    probes = (job for job in active if job.state is JobState.STARTING and now < probes_until(job))
    return min(probes, key=lambda job: job.name, default=None)


def probes_until(job: Job) -> int:
    """When a start no longer keeps its pool closed (ms)."""
    assert job.attempt is not None
    return job.attempt.admitted_at + PROBE_FOR
