"""Step 3d, reserve: a job that has been passed long enough makes one of its pools drain.

"A job that does not fit is passed by smaller ones behind it (backfill) until it has waited
`reserve_after` since its entry; then one of its pools drains for it, the one where fewest slots are
missing. 0 = strict order; absent = always backfill. Claims come before a drain."
"""

from __future__ import annotations

from collections.abc import Iterable

from slotq_core.model import Job
from slotq_core.policy.fit import Entitled, PoolRoom


def due_at(job: Job, room: PoolRoom) -> int | None:
    """When the pool drains for the job if it still waits then; None: never."""
    if room.pool.reserve_after is None:
        return None
    return job.entry_time + room.pool.reserve_after


def pool_to_drain(
    job: Job, rooms: Iterable[PoolRoom], entitled: Entitled, now: int
) -> PoolRoom | None:
    """The pool that drains for the job from now on; between equals the job's own order decides."""
    due = [room for room in rooms if (at := due_at(job, room)) is not None and at <= now]
    return min(due, key=lambda room: sum(room.missing(job, entitled).values()), default=None)
