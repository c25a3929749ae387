"""How projects and departments stand: what each deserves, holds and waits for (DESIGN 5.2)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from slotq_core.model.projects import Department
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.state.plan_state import PlanState
from slotq_core.policy.state.quotas.account import Account


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """One project or department in one scope and one resource."""

    name: str
    is_department: bool
    scope: str
    """The pool where the quota counts; empty: all pools together."""
    resource: str
    quota: int
    share: int
    """The fair share: what the owner is given now if everybody takes what they ask for."""
    limit: int | None
    held: int
    """Held now, by jobs that go on."""
    stopping: int
    """Held by jobs that are being stopped."""
    waiting: int
    """Asked for by waiting jobs, at most what the pools have."""

    @property
    def over_quota(self) -> int:
        return max(0, self.held - self.quota)


def standings(snapshot: Snapshot, now: int) -> list[Standing]:
    """Return how everybody stands, projects in their order, then departments. `now`: ms."""
    return [
        each
        for account, scope in PlanState(snapshot, now).accounts.everyone()
        for each in _standing(account, scope)
    ]


def _standing(account: Account, scope: str) -> Iterator[Standing]:
    for resource in account.resources:
        held = account.used[resource]
        yield Standing(
            name=account.name,
            is_department=isinstance(account.owner, Department),
            scope=scope,
            resource=resource,
            quota=account.quota[resource],
            share=account.share[resource],
            limit=account.limit.get(resource),
            held=held,
            stopping=account.stopping[resource],
            waiting=max(0, account.asked[resource] - held),
        )
