"""What a refusal by a quota of the account concerns.

What one quota refuses concerns what that quota names: a pool backs off, and learns its size, only
from the quota of its own instance type for training jobs; every pool backs off after a refusal by
the quota of all training jobs. Any other quota concerns the job alone: it waits for its other pools
and, once all have refused it, backs off. No other job pays for that: until SageMaker accepts the
job, or `NO_EVICTION_FOR` is over, the job takes only free slots where it was refused.
While it runs, no move takes it to a pool that refused it: it would be refused again and come back.

See docs/policy-decisions.md#quotas-of-the-account.
"""

from __future__ import annotations

from slotq_core.copies import copied
from slotq_core.model.attempts import Attempt
from slotq_core.model.jobs import Job
from slotq_core.model.pools import Pool, ServiceQuota
from slotq_core.timestamps import FAR_OFF

NO_EVICTION_FOR = 1_800_000
"""How long a refused job evicts and drains nothing in a pool after it waits again (ms)."""


def is_of_the_job(quota: ServiceQuota | None, attempt: Attempt) -> bool:
    """Whether a refusal by this quota concerns only the job. None: it names no quota that could be
    read, so the caller's verdict stands."""
    if quota is None or quota.all_training:
        return False
    return quota.instance_type not in _types(attempt)


def pools_concerned(
    quota: ServiceQuota | None, attempt: Attempt, job: Job
) -> tuple[str, ...] | None:
    """The pools that back off after a capacity error of the attempt; None: all pools."""
    if quota is not None and quota.all_training:
        return None
    if quota is None or not job.parts:
        return (attempt.pool,)
    parts = zip(job.parts, _types(attempt), strict=False)  # Older attempts know only one type.
    return tuple(pool for (pool, _), kind in parts if kind == quota.instance_type)


def limit_of(pool: Pool, quota: ServiceQuota | None) -> int | None:
    """The slots that a refusal allows the pool; None: it says nothing about the pool's size."""
    own = quota is not None and quota.instance_type == pool.instance_type
    return quota.limit if quota and own else None


def takes_only_free_slots(job: Job, pool: str, now: int) -> bool:
    """Whether the job may evict and drain nothing in the pool, because a quota of something else
    refused its last start there, and it has no claim there."""
    if pool not in job.refused_in or (job.claim is not None and job.claim.pool == pool):
        return False
    return now < no_eviction_until(job) <= now + FAR_OFF


def no_eviction_until(job: Job) -> int:
    """When that ends (ms)."""
    return job.changed_at + NO_EVICTION_FOR


def once_it_runs(job: Job) -> Job:
    """The running job with the refusals that still count: those of pools that it is not in."""
    held = {pool for pool, _ in job.holds}
    refused = tuple(name for name in job.refused_in if name not in held)
    denied = tuple(name for name in job.denied_in if name not in held)
    return copied(job, refused_in=refused, denied_in=denied)


def _types(attempt: Attempt) -> tuple[str, ...]:
    return attempt.instance_types or (attempt.instance_type,)
