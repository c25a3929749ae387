"""What a job's yield to a time slice says of its user (actions/time_slice.py).

The user whose job yielded counts, for all that user's waiting jobs of that rank, as having entered
just after that moment (`order.entered`). The stores keep it beside the jobs.

See docs/policy-decisions.md#time-slices.
"""

from __future__ import annotations

from collections.abc import Iterable

from slotq_core.model.attempts import StopCause
from slotq_core.model.jobs import Job
from slotq_core.model.users import Yielded


def yield_of(job: Job) -> Yielded | None:
    """What the job's yield to a slice says of its user, while the job stops for it."""
    stop = job.attempt.stop if job.attempt else None
    if stop is None or stop.cause is not StopCause.YIELDED:
        return None
    return Yielded(
        user=job.person,
        workload=job.workload,
        priority=job.priority,
        at=stop.at,
        project=job.project,
    )


def yield_in(before: Job | None, after: Job) -> Yielded | None:
    """The yield that one change of a job brings."""
    return None if before is None or yield_of(before) else yield_of(after)


def after_yield(yields: Iterable[Yielded], before: Job | None, after: Job) -> tuple[Yielded, ...]:
    """The last yield of each project, user and rank, after one change of a job."""
    this = yield_in(before, after)
    if this is None:
        return tuple(yields)
    return (*(each for each in yields if each.of != this.of), this)
