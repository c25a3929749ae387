"""Step 3d, reserve: one pool drains for a job that others have passed for long enough.

"A job that does not fit is passed by smaller ones behind it (backfill) until it has waited
`reserve_after` since its entry; then one of its pools drains for it, the one where fewest slots are
missing. 0 = strict order; absent = always backfill. Claims come before a drain." After a user has
yielded to a time slice, the wait counts from that moment.
"""

from __future__ import annotations

from collections.abc import Iterable

from slotq_core.model.jobs import Job
from slotq_core.policy.state.pool_room import PoolRoom


def due_at(entry: int, room: PoolRoom) -> int | None:
    """When (ms) the pool drains for a waiting job that entered at `entry` (ms); None: never."""
    return None if room.pool.reserve_after is None else entry + room.pool.reserve_after


def pool_to_drain(job: Job, rooms: Iterable[PoolRoom]) -> PoolRoom | None:
    """The one of these pools that drains for the job from now on; None if there are none. The
    job's own order of pools decides between equals."""
    return min(rooms, key=lambda room: sum(room.missing(job).values()), default=None)
