"""The share status of projects and departments: what each deserves, holds and waits for.

See docs/policy-decisions.md#shares-and-reclaim.
"""

from __future__ import annotations

from collections.abc import Iterator

from slotq_core.model.projects import Department, ShareStatus
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.state.plan_state import PlanState
from slotq_core.policy.state.quotas.account import Account
from slotq_core.policy.state.quotas.budgets import Budgets


def share_statuses(snapshot: Snapshot, now: int) -> list[ShareStatus]:
    """Return the share statuses, projects in their order, then departments. `now`: ms."""
    return [
        status
        for account, scope in PlanState(snapshot, now, Budgets(snapshot, now)).accounts.everyone()
        for status in _statuses(account, scope)
    ]


def _statuses(account: Account, scope: str) -> Iterator[ShareStatus]:
    for resource in account.resources:
        held = account.used[resource]
        limits = (account.limit.get(resource), account.configured_limit.get(resource))
        yield ShareStatus(
            name=account.name,
            is_department=isinstance(account.owner, Department),
            scope=scope,
            resource=resource,
            quota=account.quota[resource],
            share=account.share[resource],
            limit=min((most for most in limits if most is not None), default=None),
            held=held,
            stopping=account.stopping[resource],
            waiting=max(0, account.asked[resource] - held),
        )
