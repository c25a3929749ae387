"""Step 3e, preempt: stop jobs of strictly lower rank of the same project (DESIGN 5.1).

"Evict only when the beneficiary then fits whole." "A job kept back by its project's limit may
preempt lower ranks that count in the same limit", in whichever pool they run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from slotq_core.model import Job
from slotq_core.policy.accounts import Accounts
from slotq_core.policy.fit import Entitled, PoolRoom
from slotq_core.policy.order import rank
from slotq_core.policy.stakes import by_order
from slotq_core.policy.victims import Eviction, freed, least_harm, spared


def outranks(job: Job, holder: Job) -> bool:
    """ "Strictly lower rank in its own project"; equal ranks never evict each other."""
    return holder.project == job.project and rank(holder) < rank(job)


@dataclass(frozen=True, kw_only=True, slots=True)
class Preemption:
    """What a preemption looks at: every pool, the books, who may take whose claim, the moment."""

    everywhere: Mapping[str, PoolRoom]
    accounts: Accounts
    entitled: Entitled
    now: int

    def find(self, job: Job, rooms: Sequence[PoolRoom]) -> Eviction | None:
        """The least harmful preemption that lets the job start in one of these rooms."""
        found = [self._in_pool(job, room) for room in rooms]
        return least_harm([eviction for eviction in found if eviction], self.now)

    def _in_pool(self, job: Job, room: PoolRoom) -> Eviction | None:
        here = _outranked(job, [room])
        limited = not self.accounts.limits_allow(job, room.pool.name)
        elsewhere = self._in_the_same_limit(job, room) if limited else []
        if not (here or elsewhere):
            return None
        left = room.left(job, self.entitled)

        def fits(victims: Sequence[Job]) -> bool:
            return job.demand.within(left + freed([each for each in victims if each in here]))

        def allowed(victims: Sequence[Job]) -> bool:
            return self.accounts.limits_allow(job, room.pool.name, gone=freed(victims))

        chosen: list[Job] = []
        for victim in sorted([*here, *elsewhere], key=lambda each: by_order(each, self.now)):
            if fits(chosen) and allowed(chosen):
                break
            if victim in here or not allowed(chosen):
                chosen.append(victim)
        if not (fits(chosen) and allowed(chosen)):
            return None
        needed = spared(chosen, lambda rest: fits(rest) and allowed(rest))
        return Eviction(room=room, victims=needed)

    def _in_the_same_limit(self, job: Job, room: PoolRoom) -> list[Job]:
        return _outranked(job, self.accounts.sharing_limit(room, self.everywhere.values()))


def _outranked(job: Job, rooms: Iterable[PoolRoom]) -> list[Job]:
    found: list[Job] = []
    for room in rooms:
        for other in room.running.candidates(job.project):
            if rank(other) >= rank(job):
                break  # They come in the order of their ranks.
            found.append(other)
    return found
