"""Who may take whose claim.

A job entitled to evict the claimant may take its claim over.

See docs/policy-decisions.md#claims-and-coming-slots.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from slotq_core.model.jobs import Job
from slotq_core.policy.order import outranks
from slotq_core.policy.state.quotas.accounts import Accounts
from slotq_core.policy.state.quotas.gate import givers, may_take
from slotq_core.policy.state.quotas.shares import Shares


class Entitlement:
    """The rule as a function of a job that needs slots and a claimant."""

    def __init__(self, accounts: Accounts, shares: Shares) -> None:
        self._accounts, self._shares = accounts, shares

    def __call__(self, job: Job, holder: Job) -> bool:
        """Whether the job could evict the claimant if the claimant ran in the claim's pool."""
        if not holder.evictable or holder.claim is None:
            return False
        pool = holder.claim.pool
        mine, theirs = self._accounts.of(job, pool), self._accounts.of(holder, pool)
        if holder.project != job.project:
            return may_take(job, mine, holder, theirs)
        return outranks(job, holder) and self._shares.beyond(job, pool).within(holder.demand)

    def projects(self, job: Job, pool: str, among: AbstractSet[str]) -> AbstractSet[str]:
        """Those of these projects in which the job may evict in that pool: often just its own."""
        return {job.project, *givers(job, pool, among, self._accounts)} & among
