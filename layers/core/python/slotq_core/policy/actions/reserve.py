"""Step 3d, reserve: one pool drains for a job that others have passed for long enough.

"A job that does not fit is passed by smaller ones behind it (backfill) until it has waited
`reserve_after` since its entry; then one of its pools drains for it, the one where fewest slots are
missing." From then on only jobs pass that cannot delay it (backfill.py): with 0 from the beginning;
absent = always backfill. "Claims come before a drain." After a user has yielded to a time slice,
the wait counts from that moment. Where bounds say when the job fits, the pool where it fits first
drains, so that a job that passes in one pool never brings the drain to a slower one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from slotq_core.model.jobs import Job
from slotq_core.policy.state.pool_room import PoolRoom


def due_at(entry: int, room: PoolRoom) -> int | None:
    """When (ms) the pool drains for a waiting job that entered at `entry` (ms); None: never."""
    return None if room.pool.reserve_after is None else entry + room.pool.reserve_after


def pool_to_drain(
    job: Job, rooms: Sequence[PoolRoom], expected_at: Callable[[Job, PoolRoom], int] | None
) -> PoolRoom | None:
    """The one of these pools that drains for the job from now on; None if there are none. The one
    where it fits first at the latest, else where fewest slots are missing. The job's own order of
    pools decides between equals. `expected_at`: when it fits at the latest (ms); None: nobody
    knows."""
    if len(rooms) < 2:
        return rooms[0] if rooms else None

    def key(room: PoolRoom) -> tuple[int, int]:
        missing = sum(room.missing(job).values())
        return (expected_at(job, room) if expected_at else 0), missing

    return min(rooms, key=key)
