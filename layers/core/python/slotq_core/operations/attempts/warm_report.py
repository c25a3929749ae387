"""Report pools whose instances SageMaker does not keep warm, because the account has no quota."""

from __future__ import annotations

from dataclasses import replace

from slotq_core.model.pools import Pool
from slotq_core.policy.lifecycle.warm_slots import TRIED_AGAIN_AFTER
from slotq_core.ports.configuration import Health, StoredConfiguration
from slotq_core.ports.stored import Finding

KIND = "warm_quota"


def examine(
    configuration: StoredConfiguration, health: Health, now: int, *, mend: bool
) -> list[Finding]:
    """Return a finding for each pool that lately kept nothing warm. Mending lets the next attempt
    try again. Raises Unavailable."""
    found = []
    for name in [pool.name for pool in configuration.pools()]:
        pool = health.pool(name)
        if pool is None or not _keeps_nothing(pool, now):
            continue
        if mend:
            health.set(name, replace(pool.health, warm_refused_at=None))
        found.append(Finding(kind=KIND, subject=name, text=_text(pool), mended=mend))
    return found


def _keeps_nothing(pool: Pool, now: int) -> bool:
    refused = pool.health.warm_refused_at
    return refused is not None and now < refused + TRIED_AGAIN_AFTER


def _text(pool: Pool) -> str:
    return (
        "SageMaker keeps no instances warm, so each job starts on new ones: ask Service Quotas for "
        f"'{pool.instance_type} for training warm pool usage', which is 0 in a new account, or set "
        "keep_warm to 0"
    )
