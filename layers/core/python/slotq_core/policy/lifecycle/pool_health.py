"""The health of a pool after capacity errors.

The pool itself backs off and is probed by one job at a time. If the account's quota of the pool's
instance type is below the configured capacity, the pool runs at the learned limit for
`LEARNED_FOR`, or until an operator forgets it.

The last `MOST_STARTS` starts show how long a start takes: from an attempt's creation until it has
its instances. An eviction costs its victim one start (`policy.state.candidates`), and
`min_runtime: auto` protects an attempt for as long. A wait for capacity is no part of a start.

See docs/policy.md#when-something-fails and docs/policy-decisions.md#what-an-eviction-costs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from slotq_core.model.jobs import Job, JobState
from slotq_core.model.pools import HEALTHY, CapacityKind, FailedNodes, Pool, PoolHealth
from slotq_core.policy.lifecycle.retry import LONGEST_BACKOFF, LONGEST_MESSAGE, backoff
from slotq_core.timestamps import FAR_OFF

LEARNED_FOR = 1_800_000
"""How long a learned limit counts before the pool tries its configured capacity again (ms)."""

FIRST_WITHOUT_NODES = 3_600_000
"""How long no node starts for a tenant whose image could not run the agent (ms); doubles with each
failure in a row, up to `LONGEST_WITHOUT_NODES`. Each try costs minutes of an instance."""

LONGEST_WITHOUT_NODES = 86_400_000

MOST_FAILED_TENANTS = 20
"""Most tenants of failed nodes that a pool remembers. A forgotten one costs one more node."""

MOST_STARTS = 20
"""The most starts that a pool remembers. A pool's record stays small."""

PROBE_FOR = LONGEST_BACKOFF
"""How long a start may keep its pool closed while SageMaker says nothing about it (ms)."""


def after_capacity_error(
    pool: Pool, *, now: int, message: str, limit: int | None = None
) -> PoolHealth:
    """The health of the pool after a capacity error at `now` (ms). `limit`: the account's quota of
    the pool's instance type, in instances, if SageMaker named it."""
    errors = pool.health.errors + 1
    health = replace(pool.health, errors=errors, not_before=now + backoff(errors), message=message)
    if limit is not None and limit < pool.capacity.slots:
        health = replace(health, learned=limit, learned_until=now + LEARNED_FOR)
    return health


def after_a_start(health: PoolHealth) -> PoolHealth:
    """The health of the pool after a training job got its instances: no errors, no back-off. A
    learned limit and missing rights stay."""
    if not health.errors:
        return health
    if health.learned is None:
        return replace(forgotten(health), failed_nodes=health.failed_nodes)
    return replace(health, errors=0, not_before=None)


def forgotten(health: PoolHealth) -> PoolHealth:
    """The health without the results of capacity errors and failed nodes: the pool is tried in full
    at once. Missing rights stay, what is known of a training plan, and how long starts take."""
    return replace(
        HEALTHY,
        missing_rights=health.missing_rights,
        plan=health.plan,
        starts=health.starts,
        started_at=health.started_at,
    )


def after_failed_agent(
    health: PoolHealth, *, tenant: str, image: str, message: str, now: int
) -> PoolHealth:
    """The health of the pool after the image of a tenant could not run a node's agent, at `now`
    (ms). A failure long ago does not count."""
    recent = [
        failed for failed in health.failed_nodes if now < failed.not_before + LONGEST_WITHOUT_NODES
    ]
    known = next((failed for failed in recent if failed.tenant == tenant), None)
    failures = known.failures + 1 if known else 1
    wait = min(LONGEST_WITHOUT_NODES, FIRST_WITHOUT_NODES << min(failures - 1, 16))
    failed_now = FailedNodes(
        tenant=tenant,
        image=image,
        since=known.since if known else now,
        failures=failures,
        not_before=now + wait,
        message=message[:LONGEST_MESSAGE],
    )
    others = [failed for failed in recent if failed.tenant != tenant]
    others.sort(key=lambda failed: (-failed.not_before, failed.tenant))
    return replace(health, failed_nodes=(failed_now, *others)[:MOST_FAILED_TENANTS])


def without_nodes(health: PoolHealth, now: int) -> frozenset[str]:
    """The tenants for which no node starts in the pool at `now` (ms). An end later than any that
    would be set now does not count."""
    return frozenset(
        failed.tenant
        for failed in health.failed_nodes
        if now < failed.not_before <= now + LONGEST_WITHOUT_NODES + FAR_OFF
    )


def backs_off(pool: Pool, now: int) -> bool:
    """Whether nothing starts in the pool. An end more than `FAR_OFF` ahead does not count."""
    until = pool.health.not_before
    return until is not None and now < until <= now + FAR_OFF


def probe(pool: Pool, active: Iterable[Job], now: int) -> Job | None:
    """The job that probes a pool with capacity errors, or None. Nothing else starts there until it
    has its instances or ends, at most for `PROBE_FOR`."""
    if not pool.health.errors:
        return None
    probes = (job for job in active if job.state is JobState.STARTING and now < probes_until(job))
    return min(probes, key=lambda job: job.name, default=None)


def probes_until(job: Job) -> int:
    """When a start no longer keeps its pool closed (ms)."""
    assert job.attempt is not None
    return job.attempt.admitted_at + PROBE_FOR


def start_in(before: Job, after: Job) -> int | None:
    """How long the start took (ms) that this change of a job ends; None: it ends no start that
    counts. An attempt that SageMaker has shown as pending has waited for capacity, and any in a
    spot pool may have. Starts on warm instances, of jobs on nodes, and over several pools, which
    wait for the slowest, do not count either."""
    was, attempt = before.attempt, after.attempt
    if was is None or attempt is None or attempt.running_since is None:
        return None
    if was.running_since is not None or was.interrupted_since is not None:
        return None
    if was.pending_since is not None or attempt.capacity_kind is CapacityKind.SPOT:
        return None
    if attempt.warm_from or attempt.node or after.parts:
        return None
    took = attempt.running_since - attempt.admitted_at
    return took if took > 0 else None


def with_start(health: PoolHealth, took: int, at: int) -> PoolHealth:
    """The health of the pool after a start that took so long (ms) and ended at `at` (ms)."""
    starts = (*health.starts, took)[-MOST_STARTS:]
    return replace(health, starts=starts, started_at=max(at, health.started_at or at))
