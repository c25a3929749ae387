"""Budgets of projects for a calendar month (UTC), and the effects of spending one.

Beyond a `soft` budget, all that the project holds counts as over quota: its quota is 0 until the
month ends, its weight and its limits stay. Beyond a `hard` one, none of its jobs starts: they take
no turns, ask for no share and keep no claims. What runs goes on, within the quota as before.

The spending of a month counts the slots that ended attempts held in the month, and that active
attempts have held in it so far. So a plan knows when a budget will be spent at the present rate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from math import lcm

from slotq_core.model.jobs import Job
from slotq_core.model.projects import Beyond, BudgetStatus
from slotq_core.model.reasons import BudgetSpent
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.plan import DropClaim
from slotq_core.usage.attempt_use import slot_ms
from slotq_core.usage.calendar_days import month_of, next_month


def budgets_of(snapshot: Snapshot, now: int) -> dict[str, BudgetStatus]:
    """Return the status of each project with a budget, by name."""
    budgets = {
        project.name: project.budget for project in snapshot.projects if project.budget is not None
    }
    if not budgets:
        return {}
    month, recorded = month_of(now), snapshot.spent
    known = recorded.month == month
    held, spent = Counter[str](), Counter[str](recorded.slot_ms if known else {})
    holders = [job for job in snapshot.active if job.project in budgets and job.attempt]
    parts = {
        job.name: part
        for job in holders
        if job.attempt and job.attempt.node and (part := job.attempt.part_of_slot)
    }
    per = lcm(*(whole for _, whole in parts.values()))
    for job in holders:
        assert job.attempt is not None
        attempt, slots = job.attempt, job.demand.slots
        since, until = max(month, attempt.used_since), attempt.used_until(now)
        if job.name in parts:
            gpus, whole = part = parts[job.name]
            held[job.project] += slots * per * gpus // whole
            spent[job.project] += slot_ms(slots, part, since, until)
        else:
            held[job.project] += slots * per if until == now else 0
            spent[job.project] += slots * max(0, until - since)
    return {
        name: BudgetStatus(
            project=name,
            budget=budget,
            spent=spent[name],
            held=held[name],
            resets_at=next_month(now),
            warned=known and name in recorded.warned,
            per=per,
        )
        for name, budget in budgets.items()
    }


class Budgets:
    """The budgets during one plan. No decision of a plan changes the spending."""

    def __init__(self, snapshot: Snapshot, now: int) -> None:
        self._snapshot, self._now = snapshot, now
        self._statuses = budgets_of(snapshot, now)
        spent = [status for status in self._statuses.values() if status.is_spent]
        self.soft = frozenset(s.project for s in spent if s.budget.beyond is Beyond.SOFT)
        """The projects beyond a soft budget."""
        self.hard = frozenset(s.project for s in spent if s.budget.beyond is Beyond.HARD)
        """The projects beyond a hard budget."""

    @cached_property
    def kept_back(self) -> tuple[Job, ...]:
        """The waiting jobs that a hard budget keeps back."""
        waiting = self._snapshot.waiting if self.hard else ()
        return tuple(job for job in waiting if job.project in self.hard)

    def without_them(self) -> Snapshot:
        """The snapshot without the jobs that are kept back."""
        if not self.kept_back:
            return self._snapshot
        others = (job for job in self._snapshot.waiting if job.project not in self.hard)
        return replace(self._snapshot, waiting=tuple(others))

    def void_claims(self) -> Iterator[DropClaim]:
        """Give up the claims of the jobs that are kept back."""
        return (DropClaim(job=job) for job in self.kept_back if job.claim)

    def reason(self, project: str) -> BudgetSpent:
        """Why the jobs of a project beyond its budget wait."""
        status = self._statuses[project]
        return BudgetSpent(
            project=project,
            spent=status.spent // 1000,
            budget=status.budget.slot_ms // 1000,
            until=status.resets_at,
            beyond=status.budget.beyond.value,
        )

    def timers(self) -> Iterator[int]:
        """When (ms) the clock alone may bring a project near or beyond its budget, or reset a spent
        budget that keeps jobs back."""
        waiting = {job.project for job in self._snapshot.waiting} if self._statuses else set()
        for name, status in self._statuses.items():
            marks = (status.near, status.budget.slot_ms)
            crossings = [status.reaches(mark, self._now) for mark in marks if status.spent < mark]
            yield from (min(at, status.resets_at) for at in crossings if at is not None)
            if status.is_spent and name in waiting:
                yield status.resets_at
