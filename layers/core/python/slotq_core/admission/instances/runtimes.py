"""How long a job may run, for pools that are not always open.

It is exact, unlike that of jobs on nodes: a pool may be open for a few hours only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from slotq_core.model.jobs import Job
from slotq_core.model.pools import Pool

BY_DEFAULT = 86_400
"""How long (s) a training job may run whose request does not say so: SageMaker's default."""


def with_longest(job: Job, request: Mapping[str, Any], pools: Iterable[Pool]) -> Job:
    """Return the job with the longest that an attempt of it may run, if one of its pools has hours,
    or one of those (`pools`) in which other members of its group may run: a gang stops whole. That
    of a job on nodes is known already."""
    concerned = (pool for pool in pools if job.group or pool.name in job.pools)
    if job.longest_attempt or not any(pool.is_timed for pool in concerned):
        return job
    asked = request.get("StoppingCondition") or {}
    seconds = int(asked.get("MaxRuntimeInSeconds") or BY_DEFAULT)
    return replace(job, longest_attempt=1000 * seconds)
