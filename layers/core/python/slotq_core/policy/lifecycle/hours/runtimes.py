"""How long jobs may run, and by when they have given their slots back.

A job's bound is a start, what is left of its maximum runtime, and a stop. What is left counts over
all attempts, because each attempt gets what the ones before have left
(`ports.training.stopping_condition`).
"""

from __future__ import annotations

from slotq_core.model.jobs import Job, JobState
from slotq_core.model.pools import LONGEST, CapacityKind, Pool

START = 10 * 60_000
"""How long (ms) a start may take, from the admission until the job runs, where a pool has no starts
to go by."""
STOP = 5 * 60_000
"""How long (ms) a stop may take, until the slots are free."""


def may_run_for(job: Job) -> int:
    """The longest (ms) that an attempt of the job may run, as far as is known."""
    return job.longest_attempt or LONGEST


def ends_by(job: Job, pool: Pool, now: int) -> int | None:
    """When (ms) the job has given back its slots of the pool at the latest, if a waiting one starts
    now; None: not known. A start or stop that takes longer than expected has no bound, and neither
    has an attempt on spot instances, which SageMaker may interrupt."""
    attempt = job.attempt
    if job.state is JobState.STOPPING and attempt is not None and attempt.stop is not None:
        return _unless_over((attempt.stop.grace_until or attempt.stop.at) + STOP, now)
    longest = job.runtime_left
    if longest is None or pool.capacity_kind is CapacityKind.SPOT:
        return None
    if attempt is not None and attempt.running_since is not None:
        return _unless_over(attempt.running_since + longest + STOP, now)
    runs = _unless_over((now if attempt is None else attempt.admitted_at) + start_takes(pool), now)
    return None if runs is None else runs + longest + STOP


def start_takes(pool: Pool) -> int:
    """How long (ms) a start may take in the pool: as 95 in 100 of its last ones did at most."""
    slow = pool.health.slow_start
    return START if slow is None else slow


def eviction_takes(pool: Pool) -> int:
    """How long (ms) it may take from an eviction until the slots are free."""
    return pool.suspend_grace + STOP


def _unless_over(at: int, now: int) -> int | None:
    return at if at >= now else None
