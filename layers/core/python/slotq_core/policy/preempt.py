"""Step 3e, preempt: stop jobs of strictly lower rank of the same project (DESIGN 5.1).

"Evict only when the beneficiary then fits whole." "A job kept back by its project's limit may
preempt lower ranks that count in the same limit", in whichever pool they run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from slotq_core.model import Job
from slotq_core.policy.accounts import Accounts
from slotq_core.policy.fit import Entitled, PoolRoom
from slotq_core.policy.order import rank
from slotq_core.policy.victims import (
    Eviction,
    by_order,
    freed,
    least_harm,
    spared,
    stoppable,
)


def outranks(job: Job, holder: Job) -> bool:
    """ "Strictly lower rank in its own project"; equal ranks never evict each other."""
    return holder.project == job.project and rank(holder) < rank(job)


def preempt(
    job: Job,
    rooms: Sequence[PoolRoom],
    everywhere: Mapping[str, PoolRoom],
    accounts: Accounts,
    entitled: Entitled,
    now: int,
) -> Eviction | None:
    """The least harmful preemption that lets the job start in one of these rooms."""
    found = [_in_pool(job, room, everywhere, accounts, entitled, now) for room in rooms]
    return least_harm([eviction for eviction in found if eviction], now)


def _in_pool(
    job: Job,
    room: PoolRoom,
    everywhere: Mapping[str, PoolRoom],
    accounts: Accounts,
    entitled: Entitled,
    now: int,
) -> Eviction | None:
    left = room.left(job, entitled)
    here = _candidates(job, [room], now)
    elsewhere = _candidates(job, accounts.sharing_limit(room, everywhere.values()), now)

    def fits(victims: Sequence[Job]) -> bool:
        mine = [victim for victim in victims if victim in here]
        return job.demand.within(left + freed(mine))

    def allowed(victims: Sequence[Job]) -> bool:
        return accounts.limits_allow(job, room.pool.name, gone=freed(victims))

    chosen: list[Job] = []
    for victim in sorted([*here, *elsewhere], key=lambda other: by_order(other, now)):
        if fits(chosen) and allowed(chosen):
            break
        if victim in here or not allowed(chosen):
            chosen.append(victim)
    if not (fits(chosen) and allowed(chosen)):
        return None
    return Eviction(room=room, victims=spared(chosen, lambda rest: fits(rest) and allowed(rest)))


def _candidates(job: Job, rooms: Iterable[PoolRoom], now: int) -> list[Job]:
    return [
        other
        for room in rooms
        for other in room.running
        if outranks(job, other) and stoppable(other, room, now)
    ]
