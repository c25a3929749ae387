"""What is at stake where a job that holds slots might be stopped (DESIGN 5.1).

"Never evicted: a non-preemptible job; one inside its pool's, project's or own `min_runtime` (a
job's own is capped by its pool's `max_min_runtime`, default 0); one already stopping." Nor one
whose create SageMaker has not answered: it may be under way, and a stop could overtake it.
"""

from __future__ import annotations

from slotq_core.model import Job, JobState, Pool
from slotq_core.policy.order import Rank, rank


def is_settled(job: Job) -> bool:
    return job.state is not JobState.STARTING or (job.attempt is not None and job.attempt.created)


def is_protected(job: Job, pool: Pool, project_min: int, now: int) -> bool:
    if job.attempt is None or not _protection(job, pool, project_min):
        return False  # Without an attempt it was given its slots in this very plan.
    until = protected_until(job, pool, project_min)
    return until is None or now < until


def protected_until(job: Job, pool: Pool, project_min: int) -> int | None:
    """When a running job's `min_runtime` is over; None while it has not begun to run at all."""
    assert job.attempt is not None
    if job.attempt.running_since is None:
        return None
    return job.attempt.running_since + _protection(job, pool, project_min)


def unsaved(job: Job, now: int) -> int:
    """Milliseconds of work that stopping the job now may cost."""
    if job.attempt is None:
        return 0
    since = job.attempt.checkpoint_at or job.attempt.running_since
    return 0 if since is None else max(0, now - since)


Taken = tuple[Rank, int, int, int, str]
"""A place among candidates for an eviction."""


def by_order(job: Job, now: int) -> Taken:
    """The order in which candidates for an eviction are taken: "lowest rank, then least time since
    the last reported checkpoint (else since the attempt's start), then larger, then later entry,
    then name"."""
    return (rank(job), unsaved(job, now), -job.demand.slots, -job.entry_time, job.name)


def _protection(job: Job, pool: Pool, project_min: int) -> int:
    return max(pool.min_runtime, project_min, min(job.min_runtime, pool.max_min_runtime))
