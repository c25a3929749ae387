"""A quick test whether a turn can bring a job anything. Most turns in a long queue bring nothing.

The test is a bound, not a rule. If a job has no prospects, no step of its turn finds anything
(tests/property/test_prospects.py). If it has prospects, the steps may still find nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from slotq_core.model.jobs import Job
from slotq_core.policy.actions.reclaim import may_reclaim
from slotq_core.policy.order import rank
from slotq_core.policy.state.claims import Entitled
from slotq_core.policy.state.pool_room import PoolRoom
from slotq_core.policy.state.quotas.accounts import Accounts


def has_prospects(
    job: Job, rooms: Iterable[PoolRoom], accounts: Accounts, entitled: Entitled
) -> bool:
    """Whether a room has enough free or coming slots, allows moves, or holds a possible victim."""
    for room in rooms:
        if room.fits_soon(job, entitled) or room.pool.consolidate:
            return True
        lowest = room.lowest(job.project)
        if lowest is not None and (lowest < rank(job) or room.pool.time_slice is not None):
            return True
        mine = accounts.of(job, room.pool.name)
        if may_reclaim(job, mine) and room.may_give() & accounts.may_give(mine, room.pool.name):
            return True
    return False
