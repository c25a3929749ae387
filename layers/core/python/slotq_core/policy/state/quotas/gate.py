"""The gates between projects: the rights to reclaim slots and to move jobs of others.

The reclaimer must stay within its fair share; the victim's project must be above its share, or
above its quota while the reclaimer stays within its own. Both are asked where the two branches
part: between departments where these differ, else between projects. The reclaimer's fair share, the
non-preemptible quota and the anti-flap rule are asked at each level, counting victims as gone.

A reclaimer that stays within its share at each level never flaps, so the anti-flap rule of Run:ai
needs no code. `Givers` (givers.py) keeps who passes the gate before any eviction.

Where only past use brings a project above its share, it gives only jobs that had run for an hour
when past use was last added up. So a change of past use alone evicts no job sooner.

A job moves jobs of other projects only where, with it, its own project and department stay within
their fair shares. The project whose jobs move need not meet a condition: it loses no slot.

See docs/policy-decisions.md#shares-and-reclaim and docs/policy-decisions.md#consolidation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from types import MappingProxyType

from slotq_core.model.demand import NOTHING, Demand
from slotq_core.model.jobs import Job
from slotq_core.model.projects import Department
from slotq_core.policy.state.candidates import Candidate
from slotq_core.policy.state.quotas.account import Account, Chain, Deprivation
from slotq_core.policy.state.quotas.accounts import Accounts
from slotq_core.policy.state.quotas.givers import is_full

Taken = tuple[Job, str, Candidate]
"""A reclaimer, the pool and the victim."""

NOTHING_LEAVES: Mapping[str, Demand] = MappingProxyType({})


def may_reclaim(asked: Demand, mine: Chain) -> bool:
    """Whether the project stays within its fair share with a job that asks for so much, as every
    reclaimer must."""
    return bool(mine) and mine[0].in_share(asked)


def may_take(asked: Demand, mine: Chain, counted: Demand, theirs: Chain) -> bool:
    """Whether the job may reclaim from a victim that counts so much, before any other eviction."""
    if not may_reclaim(asked, mine):
        return False
    taking = Taking(asked, mine)
    if not theirs or not taking.is_fair(theirs):
        return False
    taking.lose(counted, theirs)
    return taking.keeps_within_share()


def may_move_others(
    asked: Demand, mine: Chain, leaving: Mapping[str, Demand] = NOTHING_LEAVES
) -> bool:
    """Whether the job may move running jobs of other projects: its project and department stay
    within their fair shares with it. `leaving`: by account key, what the moves take elsewhere."""
    return bool(mine) and all(
        account.in_share(asked - leaving.get(account.key, NOTHING)) for account in mine
    )


def givers(job: Job, pool: str, among: AbstractSet[str], accounts: Accounts) -> AbstractSet[str]:
    """The projects among these from which the job may reclaim in the pool, before any eviction."""
    mine = accounts.of(job, pool)
    asked = job.demand if accounts.shared is None else accounts.shared.of(job, pool)
    if not may_reclaim(asked, mine):
        return frozenset()
    return accounts.givers(pool).among(among, mine, asked)


def deserved_of(taken: Iterable[Taken], accounts: Accounts) -> Candidate | None:
    """The first victim of a gang's reclaims that its project deserves after all, or None. The
    accounts already count the gang's members in and all the victims out."""
    for job, pool, victim in taken:
        theirs = accounts.book(pool)[victim.project]
        taking = Taking(NOTHING, accounts.of(job, pool))
        if not taking.is_fair(theirs, back=accounts.scopes.counted(victim, pool)):
            return victim
    return None


@dataclass(slots=True)
class Taking:
    """A reclaim in progress: victims taken so far count as gone."""

    asked: Demand
    """What the reclaimer counts in its accounts."""
    mine: Chain
    gone: dict[str, Demand] = field(default_factory=dict)
    """By account key."""

    def lose(self, counted: Demand, theirs: Chain) -> None:
        """Count an amount that the accounts hold as gone."""
        for account in theirs:
            self.gone[account.key] = self.gone.get(account.key, NOTHING) + counted

    def keeps_within_share(self) -> bool:
        """Whether the department, too, stays within its fair share with the victims gone; if above
        its share already, holds no more than before."""
        return not any(
            account.beyond_share(self.asked - self.gone.get(account.key, NOTHING))
            for account in self.mine[1:]
        )

    def over_served(self, theirs: Chain) -> tuple[Deprivation, Deprivation]:
        """The deprivation of the department, then of the project: larger is more over-served."""
        return self._deprivation(theirs[-1]), self._deprivation(theirs[0])

    def is_fair(self, theirs: Chain, back: Demand = NOTHING) -> bool:
        """Whether the victim's project holds more than it deserves, without the victims. `back`:
        the part of it that counts as still held."""
        part = 0 if self.mine[-1] is theirs[-1] else -1  # Where the two branches part.
        mine, other = self.mine[part], theirs[part]
        as_held = back is NOTHING and not self.gone  # Most are: only a search takes any.
        above, above_quota = other.gives() if as_held else self._over(other, back)
        if not above and not (above_quota and mine.in_quota(self.asked)):
            return False
        if other is theirs[0] or self._over(theirs[0], back)[1]:
            return True
        top = self.mine[-1]
        in_full = is_full(top) and top.in_share(self.asked)
        return above and in_full and isinstance(other.owner, Department)

    def giver(self, theirs: Chain) -> Account:
        """The account that must hold more than it deserves: where the two branches part."""
        return theirs[0 if self.mine[-1] is theirs[-1] else -1]

    def gives_by_past_use(self, theirs: Chain) -> bool:
        """Whether the victim's project, which gives, would keep its slots if past use did not
        count."""
        other = self.giver(theirs)
        mine = self.mine[0 if other is theirs[0] else -1]
        if other.share_by_weights is None or not other.within_weights(self._gone(other)):
            return False
        return not (self._over(other, NOTHING)[1] and mine.in_quota(self.asked))

    def _over(self, account: Account, back: Demand) -> tuple[bool, bool]:
        """Whether the account is over its share, and over its quota, without the victims."""
        if back is NOTHING and account.key not in self.gone:
            return account.gives()
        gone = self._gone(account) - back
        return account.over_share(gone), account.over_quota(gone)

    def _deprivation(self, account: Account) -> Deprivation:
        if account.key not in self.gone:
            return account.giving()
        return account.deprivation(gone=self._gone(account))

    def _gone(self, account: Account) -> Demand:
        """The amounts that the account can no longer give: victims taken and slots only
        promised."""
        return self.gone.get(account.key, NOTHING) + account.promised
