"""Pools as of a moment, by one rule for every store: with the times at which they open, close or
change their size."""

from __future__ import annotations

from collections.abc import Iterable

from slotq_core.lifecycle import copied
from slotq_core.model.pools import CapacityKind, Pool


def scheduled(pools: Iterable[Pool], now: int) -> list[Pool]:
    """Return the pools with their schedules from `now` (ms) on."""
    return [_with_schedule(pool, now) if pool.is_timed else pool for pool in pools]


def _with_schedule(pool: Pool, now: int) -> Pool:
    # Most queues have no such pools, and no cold start should pay for them.
    if pool.capacity_kind is CapacityKind.PLAN:
        from slotq_core.wire.capacity.plan_windows import schedule_of

        return copied(pool, schedule=schedule_of(pool))
    from slotq_core.wire.capacity.opening_hours import schedule

    return copied(pool, schedule=schedule(pool.windows, now, grace=pool.suspend_grace))
