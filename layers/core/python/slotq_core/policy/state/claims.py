"""Claims: slots owed to a beneficiary, and the right to take a claim over.

A job entitled to evict the claimant may take its claim over.

See docs/policy-decisions.md#claims-and-coming-slots.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, ValuesView
from collections.abc import Set as AbstractSet

from slotq_core.model.demand import NOTHING, Demand
from slotq_core.model.jobs import Job
from slotq_core.policy.order import outranks
from slotq_core.policy.state.journal import Journal
from slotq_core.policy.state.quotas.accounts import Accounts
from slotq_core.policy.state.quotas.gate import givers, may_take
from slotq_core.policy.state.quotas.shares import Shares


class Entitlement:
    """The rule as a function of a job that needs slots and a claimant."""

    def __init__(self, accounts: Accounts, shares: Shares) -> None:
        self._accounts, self._shares = accounts, shares

    def __call__(self, job: Job, holder: Job) -> bool:
        """Whether the job could evict the claimant if the claimant ran in the claim's pool."""
        if not self._accounts.may_evict(holder) or holder.claim is None:
            return False
        pool = holder.claim.pool
        mine, theirs = self._accounts.of(job, pool), self._accounts.of(holder, pool)
        if holder.project != job.project:
            shared = self._accounts.shared
            if shared is not None:
                return may_take(shared.of(job, pool), mine, shared.of(holder, pool), theirs)
            return may_take(job.demand, mine, holder.demand, theirs)
        counted = holder.demand
        if self._accounts.shared is not None:
            counted = self._accounts.shared.of(holder, pool)
        return outranks(job, holder) and self._shares.beyond(job, pool).within(counted)

    def projects(self, job: Job, pool: str, among: AbstractSet[str]) -> AbstractSet[str]:
        """The projects among these where the job may evict in the pool: often just its own."""
        return {job.project, *givers(job, pool, among, self._accounts)} & among


class Claims:
    """The claimants of one pool without a turn so far, in the policy's order."""

    def __init__(
        self, pool: str, claimants: Iterable[Job], entitled: Entitlement, journal: Journal
    ) -> None:
        self._pool, self._entitled, self._journal = pool, entitled, journal
        self._by_name = {job.name: job for job in claimants}
        self._by_project: dict[str, list[Job]] = {}
        self._in_all: Demand | None = None
        """The total owed; None when this and `_by_project` must be computed again."""

    def __bool__(self) -> bool:
        return bool(self._by_name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def values(self) -> ValuesView[Job]:
        return self._by_name.values()

    def add(self, job: Job) -> None:
        self._forget()
        self._journal.put(self._by_name, job.name, job)
        self._journal.record(self._forget)

    def remove(self, job: Job) -> bool:
        """Remove the job. Return whether it was a claimant."""
        if job.name not in self._by_name:
            return False
        self._forget()
        self._journal.drop(self._by_name, job.name)
        self._journal.record(self._forget)
        return True

    def _forget(self) -> None:
        """Forget the totals, which are computed again when needed."""
        self._in_all = None

    def owed(self) -> Demand:
        """The total owed to all claimants."""
        if self._in_all is None:
            self._by_project = {}
            for job in self._by_name.values():
                self._by_project.setdefault(job.project, []).append(job)
            self._in_all = sum(map(_owed, self._by_name.values()), NOTHING)
        return self._in_all

    def owed_to_others(self, job: Job) -> Demand:
        """The total owed to other claimants, less the claims that the job may take over. A pool may
        be full of claims: only projects in which the job may evict are examined."""
        owed = self.owed()
        if job.name in self._by_name:
            owed = owed - _owed(self._by_name[job.name])
        for project in self._entitled.projects(job, self._pool, self._by_project.keys()):
            for other in self._by_project[project]:
                if other.name != job.name and self._entitled(job, other):
                    owed = owed - _owed(other)
        return owed


def kept(job: Job) -> Demand:
    """The capacity kept for a job that moves here. No other job may take it over."""
    return job.claim.amount if job.claim and job.claim.moved else NOTHING


def _owed(job: Job) -> Demand:
    return job.claim.amount if job.claim and not job.claim.moved else NOTHING
