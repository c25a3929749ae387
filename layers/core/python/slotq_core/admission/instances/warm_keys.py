"""Which jobs leave and use warm instances (`policy.lifecycle.warm_slots`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from slotq_core.model.jobs import Job
from slotq_core.model.pools import Pool
from slotq_core.wire.training.warm_keys import keep_alive, warm_key


def with_warm_key(job: Job, request: Mapping[str, Any], pools: Iterable[Pool]) -> Job:
    """The job with its key, if its own request or one of its pools keeps instances warm. Any other
    job is stored as before."""
    asked = keep_alive(request)
    kept = any(pool.keep_warm is not None for pool in pools if pool.name in job.pools)
    if job.parts or not (kept or asked):
        return replace(job, warm_key="", keep_alive=None)
    key = warm_key(request)
    return replace(job, warm_key=key, keep_alive=asked if key else None)
