"""Step 3d, for a reservation: take back slots that are reserved for the job's project.

Shares and quotas of others do not matter: any project that holds more than is reserved for itself
may have to give. The most over-served project gives first, one victim at a time, asked before each
victim. As everywhere, only preemptible jobs are evicted, none within its `min_runtime`, and none
unless the beneficiary then fits.

See docs/policy-decisions.md#reservations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import methodcaller

from slotq_core.model.demand import NOTHING
from slotq_core.model.jobs import Job
from slotq_core.policy.actions.victims import (
    Eviction,
    Shortfall,
    Shortfalls,
    least_harm,
    spared,
)
from slotq_core.policy.state.candidates import Candidate
from slotq_core.policy.state.plan_state import PlanState
from slotq_core.policy.state.quotas.gate import Taking
from slotq_core.policy.state.quotas.reservation_rights import ReservationRights


@dataclass(frozen=True, kw_only=True, slots=True)
class ReservationReclaim:
    """The search for jobs of other projects on slots that are reserved."""

    state: PlanState
    rights: ReservationRights

    def find(self, job: Job, pools: Sequence[str]) -> Eviction | None:
        """The least harmful eviction that lets the job start on slots reserved for its project in
        one of these pools, or None."""
        found = {pool: self._victims(job, pool) for pool in pools if self.rights.cover(job, pool)}
        evictions = [
            Eviction(room=self.state.rooms[pool], victims=victims)
            for pool, victims in found.items()
            if victims
        ]
        ranks = (victim.rank for eviction in evictions for victim in eviction.victims)
        return least_harm(evictions, min(ranks, default=(0, 0)))

    def _victims(self, job: Job, pool: str) -> tuple[Candidate, ...]:
        """Enough victims; none if they are not enough."""
        room, accounts = self.state.rooms[pool], self.state.accounts
        book, taking = accounts.book(pool), Taking(NOTHING, accounts.of(job, pool))
        shortfalls = Shortfalls(
            Shortfall(missing=room.missing(job), gives=methodcaller("frees", pool))
        )
        others = {
            project: iter(room.jobs.candidates(project))
            for project in room.jobs.projects()
            if project != job.project
        }
        gone = dict.fromkeys(others, 0)
        taken: list[Candidate] = []
        while not shortfalls.met_by(taken):
            giving = [p for p in others if self.rights.may_give(p, pool, gone[p])]
            if not giving:
                return ()
            giver = max(giving, key=lambda project: taking.over_served(book[project]))
            victim = next(others[giver], None)
            if victim is None:
                del others[giver]
                continue
            taken.append(victim)
            gone[giver] += victim.frees(pool).slots
            taking.lose(accounts.scopes.counted(victim, pool), book[giver])
        return spared(taken, shortfalls)
