"""The share status of projects and departments: what each deserves, holds and waits for.

Where projects share nodes, amounts may be parts of units.

See docs/policy-decisions.md#shares-and-reclaim.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from slotq_core.model.demand import NOTHING, Demand
from slotq_core.model.projects import Department, ShareStatus
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.explain.waiting import in_units, past_figures
from slotq_core.policy.state.journal import Journal
from slotq_core.policy.state.nodes.nodes import Nodes
from slotq_core.policy.state.plan_state import PlanState
from slotq_core.policy.state.quotas.account import Account
from slotq_core.policy.state.quotas.budgets import Budgets

HeldAmounts = Mapping[str, Mapping[str, Mapping[str, int | float]]]
"""By project, pool and resource."""


def share_statuses(snapshot: Snapshot, now: int) -> list[ShareStatus]:
    """Return the share statuses, projects in their order, then departments. `now`: ms."""
    accounts = PlanState(snapshot, now, Budgets(snapshot, now)).accounts
    units = in_units(accounts)
    return [
        status
        for account, scope in accounts.everyone()
        for status in _statuses(account, scope, units)
    ]


def held_amounts(snapshot: Snapshot, now: int) -> HeldAmounts:
    """Return what the active jobs of each project hold in each pool, as quotas count them: a node
    counts whole for its project, and where projects share it each job by itself. `now`: ms."""
    nodes = Nodes(snapshot, now, Journal())
    shared = nodes.shared
    seen = shared.seen(nodes.as_seen)
    held: dict[str, dict[str, Demand]] = {}
    for job in seen.active:
        of_project = held.setdefault(job.project, {})
        for pool, demand in job.holds:
            amount = demand * shared.per if job.parts else shared.of(job, pool)
            of_project[pool] = of_project.get(pool, NOTHING) + amount
    return {
        project: {
            pool: {name: shared.in_units(parts) for name, parts in amount.items()}
            for pool, amount in pools.items()
        }
        for project, pools in held.items()
    }


def _statuses(account: Account, scope: str, units: Callable[[int], float]) -> Iterator[ShareStatus]:
    past, due = past_figures(account)
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
            past_use=past,
            due=due,
        )
