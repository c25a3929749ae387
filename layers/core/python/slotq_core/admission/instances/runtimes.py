"""How long a job may run, for pools that change their size, have reservations, or drain.

It is exact, unlike that of jobs on nodes: a pool may be open for a few hours only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from slotq_core.model.jobs import Job
from slotq_core.model.pools import Pool
from slotq_core.names import RUNTIME_LIMIT_TAG

BY_DEFAULT = 86_400
"""How long (s) a training job may run whose request does not say so: SageMaker's default."""


def with_longest(job: Job, request: Mapping[str, Any], pools: Iterable[Pool]) -> Job:
    """Return the job with the longest that it may run.

    For pools with hours or reservations: of one attempt, if one of the job's pools has some, or one
    of those (`pools`) in which other members of its group may run: a gang stops whole. That of a
    job on nodes is known already. For pools that drain: of all attempts, if one of its pools drains
    for jobs, and if the request says so.
    """
    asked = request.get("StoppingCondition") or {}
    longest = 1000 * int(asked.get("MaxRuntimeInSeconds") or 0)
    mine = [pool for pool in pools if job.group or pool.name in job.pools]
    attempt = job.longest_attempt
    if not attempt and any(pool.is_timed or pool.reservations for pool in mine):
        attempt = longest or 1000 * BY_DEFAULT
    drains = any(pool.name in job.pools and pool.reserve_after is not None for pool in mine)
    bound = longest if drains and counts_over_attempts(request) else 0
    if (attempt, bound) == (job.longest_attempt, job.runtime_bound):
        return job
    return replace(job, longest_attempt=attempt, runtime_bound=bound)


def counts_over_attempts(request: Mapping[str, Any]) -> bool:
    """Whether the maximum runtime is that of all attempts together, and not of each one alone."""
    tags = {tag["Key"]: tag["Value"] for tag in request.get("Tags") or ()}
    return tags.get(RUNTIME_LIMIT_TAG) != "attempt"
