"""How long starts take in a pool: from an attempt's creation until it has its instances.

The pool's health keeps the last `MOST_STARTS`. An eviction costs its victim one start
(`policy.state.candidates`), and `min_runtime: auto` protects an attempt for as long.

A wait for capacity is no part of a start, so these do not count: an attempt that SageMaker has
shown as pending, and any in a spot pool, where SageMaker does not show such waits. Nor do starts on
warm instances, of jobs on nodes, and of jobs over several pools, which wait for the slowest.

See docs/policy-decisions.md#what-an-eviction-costs.
"""

from __future__ import annotations

from dataclasses import replace

from slotq_core.model.jobs import Job
from slotq_core.model.pools import CapacityKind, PoolHealth

MOST_STARTS = 20
"""The most starts that a pool remembers. A pool's record stays small."""


def start_in(before: Job, after: Job) -> int | None:
    """How long the start took (ms) that this change of a job ends; None: it ends no start that
    counts."""
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
