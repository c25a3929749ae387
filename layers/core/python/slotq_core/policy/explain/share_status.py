"""The share status of projects and departments: what each deserves, holds and waits for.

See docs/policy-decisions.md#shares-and-reclaim.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from slotq_core.model.projects import Department, ShareStatus
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.explain.waiting import in_units
from slotq_core.policy.state.plan_state import PlanState
from slotq_core.policy.state.quotas.account import Account
from slotq_core.policy.state.quotas.budgets import Budgets


def share_statuses(snapshot: Snapshot, now: int) -> list[ShareStatus]:
    """Return the share statuses, projects in their order, then departments. `now`: ms."""
    accounts = PlanState(snapshot, now, Budgets(snapshot, now)).accounts
    units = in_units(accounts)
    return [
        status
        for account, scope in accounts.everyone()
        for status in _statuses(account, scope, units)
    ]


def _statuses(account: Account, scope: str, units: Callable[[int], float]) -> Iterator[ShareStatus]:
    for resource in account.resources:
        held = account.used[resource]
        limits = (account.limit.get(resource), account.configured_limit.get(resource))
        limit = min((most for most in limits if most is not None), default=None)
        yield ShareStatus(
            name=account.name,
            is_department=isinstance(account.owner, Department),
            scope=scope,
            resource=resource,
            quota=units(account.quota[resource]),
            share=units(account.share[resource]),
            limit=None if limit is None else units(limit),
            held=units(held),
            stopping=units(account.stopping[resource]),
            waiting=units(max(0, account.asked[resource] - held)),
        )
