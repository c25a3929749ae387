"""The excess over fair shares by a job, alone or with its gang.

See docs/policy-decisions.md#shares-and-reclaim.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from slotq_core.model.demand import NOTHING, Demand
from slotq_core.model.jobs import Job
from slotq_core.policy.state.quotas.account import Account
from slotq_core.policy.state.quotas.accounts import Accounts


class Shares:
    """Answers questions about the fair shares of the accounts."""

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts
        self._to_come: dict[str, tuple[Job, str]] = {}
        """During a gang's turn: the members still to be served, by name, with their pools."""
        self._held_before: dict[int, Demand] = {}
        """During a gang's turn: the use of each account before, by `id`."""

    def has_share(self, job: Job) -> bool:
        """Whether the job's project or department has reached its share in one of the job's
        pools."""
        chains = {id(chain): chain for pool in job.pools if (chain := self._accounts.of(job, pool))}
        return any(account.has_share() for chain in chains.values() for account in chain)

    def within(self, job: Job, pool: str) -> bool:
        """Whether the job's project stays within its fair share with the job; true without
        projects."""
        shared = self._accounts.shared
        asked = job.demand if shared is None else shared.of(job, pool)
        return all(account.in_share(asked) for account in self._accounts.of(job, pool)[:1])

    def could_ever_hold(self, job: Job, pool: str) -> bool:
        """Whether the job alone is within its project's fair share."""
        chain, shared = self._accounts.of(job, pool)[:1], self._accounts.shared
        asked = job.demand if shared is None else shared.of(job, pool)
        return all(asked[n] <= account.share[n] for account in chain for n in account.resources)

    def beyond(self, job: Job, pool: str) -> Demand:
        """The excess over the shares of the job's project and department, with the job admitted.

        Of an account already over its share, only the part on top counts. A gang's members count
        together. Empty while no other project holds less than its share. A job that evicts needs
        victims of its own project for the excess: a project below its share would else reclaim the
        slots, the evicted jobs might return, and so on without end.
        """
        if not self._accounts.others_are_under(job.project, pool):
            return NOTHING
        same = self._accounts.scopes.same
        shared = self._accounts.shared
        demand = job.demand if shared is None else shared.of(job, pool)
        more = [
            other.demand if shared is None else shared.of(other, where)
            for other, where in self._to_come.values()
            if same(where, pool)
        ]
        demand = Demand.total([demand, *more]) if more else demand
        beyond = NOTHING
        for account in self._accounts.of(job, pool):
            excess = account.beyond_share(demand, self._held_before.get(id(account)))
            if excess:
                beyond = Demand({n: max(beyond[n], excess[n]) for n in {*beyond, *excess}})
        return beyond

    @contextmanager
    def together(self, jobs: Iterable[Job]) -> Iterator[dict[str, tuple[Job, str]]]:
        """Begin the turn of jobs that start together, for the duration of the context. Yields the
        members still to be served, by name, with their pools, for the caller to keep."""
        accounts = (account for job in jobs for account in self._accounts_of(job))
        self._held_before = {id(account): account.used for account in accounts}
        try:
            yield self._to_come
        finally:
            self._held_before.clear()
            self._to_come.clear()

    def _accounts_of(self, job: Job) -> Iterator[Account]:
        return (account for pool in job.pools for account in self._accounts.of(job, pool))
