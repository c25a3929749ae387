"""Step 3d, reclaim: take back from projects above their share (DESIGN 5.2).

"The reclaimer must stay within its fair share; the victim's project must be above its share, or
above its quota while the reclaimer stays within its own. The gate is asked at the project's level;
the non-preemptible quota and the anti-flap rule at each level, counting victims as gone. In-quota
work is safe (asked before each victim: one big victim may still take its project below its quota)."
"Across projects the most over-served project gives first, one victim at a time; the order of
candidates holds within it."
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from slotq_core.model import Demand, Department, Fairness, Job
from slotq_core.policy.accounts import Account, Accounts, Chain, Deprivation
from slotq_core.policy.fit import Entitled, PoolRoom
from slotq_core.policy.victims import Eviction, freed, least_harm, spared

NOTHING = Demand()


def reclaim(
    job: Job, rooms: Sequence[PoolRoom], accounts: Accounts, entitled: Entitled, now: int
) -> Eviction | None:
    """The least harmful reclaim that lets the job start in one of these rooms."""
    found = [_in_pool(job, room, accounts, entitled) for room in rooms]
    return least_harm([eviction for eviction in found if eviction], now)


def may_reclaim(job: Job, mine: Chain) -> bool:
    """The reclaimer's side of the gate: within its fair share with this job counted."""
    return bool(mine) and _within(mine[0].used, job.demand, mine[0].share)


def may_take(job: Job, mine: Chain, victim: Job, theirs: Chain) -> bool:
    """Whether the gate is open from the reclaimer to this one victim, nothing else gone yet."""
    return may_reclaim(job, mine) and _Taking(job, mine).may_take(victim, theirs)


def _in_pool(job: Job, room: PoolRoom, accounts: Accounts, entitled: Entitled) -> Eviction | None:
    mine = accounts.of(job, room.pool.name)
    if not may_reclaim(job, mine):
        return None
    givers = room.running.may_give() & accounts.may_give(mine, room.pool.name)
    by_project = [list(room.running.candidates(giver)) for giver in givers if giver != job.project]
    if not by_project:
        return None  # What fits without an eviction has been served before.
    left = room.left(job, entitled)
    taking = _Taking(job, mine)
    while not job.demand.within(left + freed(taking.victims)):
        open_to_us = [
            (accounts.of(waiting[0], room.pool.name), waiting) for waiting in by_project if waiting
        ]
        open_to_us = [
            (chain, each) for chain, each in open_to_us if taking.may_take(each[0], chain)
        ]
        if not open_to_us:
            return None
        chain, first = max(open_to_us, key=lambda option: taking.over_served(option[0]))
        taking.take(first.pop(0), chain)
    victims = spared(taking.victims, lambda rest: job.demand.within(left + freed(rest)))
    return Eviction(room=room, victims=victims)


@dataclass(slots=True)
class _Taking:
    """One reclaim under way: what is taken so far counts as gone."""

    job: Job
    mine: Chain
    victims: list[Job] = field(default_factory=list)
    gone: dict[str, Demand] = field(default_factory=dict)

    def take(self, victim: Job, theirs: Chain) -> None:
        self.victims.append(victim)
        for account in theirs:
            self.gone[account.key] = self._gone(account) + victim.demand

    def may_take(self, victim: Job, theirs: Chain) -> bool:
        return bool(theirs) and self._is_fair(theirs) and not self._flaps(victim, theirs)

    def over_served(self, theirs: Chain) -> tuple[Deprivation, Deprivation]:
        """The reverse of deprivation, department before project, counting what is gone."""
        top, own = theirs[-1], theirs[0]
        return top.deprivation(gone=self._gone(top)), own.deprivation(gone=self._gone(own))

    def _is_fair(self, theirs: Chain) -> bool:
        project = theirs[0]
        if project.over_share(self._gone(project)):
            return True
        stays_in_quota = _within(self.mine[0].used, self.job.demand, self.mine[0].quota)
        if stays_in_quota and project.over_quota(self._gone(project)):
            return True
        return self._may_take_in_quota(theirs)

    def _may_take_in_quota(self, theirs: Chain) -> bool:
        """ "`full` lets a department below its share take in-quota work of a project whose
        department is above its own."
        """
        mine, other = self.mine[-1], theirs[-1]
        if not isinstance(mine.owner, Department) or mine.owner.fairness is not Fairness.FULL:
            return False
        if mine is other or not isinstance(other.owner, Department):
            return False
        below = _within(mine.used, self.job.demand, mine.share)
        return below and other.over_share(self._gone(other))

    def _flaps(self, victim: Job, theirs: Chain) -> bool:
        """The anti-flap rule: not if the reclaimer would then be above its share, and no less so
        than the one it takes from."""
        for mine, other in _siblings(self.mine, theirs):
            ratio = mine.stretch(self.job.demand)
            if ratio > 1 and ratio >= other.stretch(gone=self._gone(other) + victim.demand):
                return True
        return False

    def _gone(self, account: Account) -> Demand:
        return self.gone.get(account.key, NOTHING)


def _siblings(mine: Chain, theirs: Chain) -> list[tuple[Account, Account]]:
    """The pairs of accounts that divide one share between them, from the project's level up."""
    if mine[-1] is theirs[-1]:
        return [(mine[0], theirs[0])]
    return [(mine[-1], theirs[-1])]


def _within(used: Demand, demand: Demand, bound: Demand) -> bool:
    """Whether what is used stays within the bound with the demand, where the demand adds to it."""
    return demand.within(bound - used)
