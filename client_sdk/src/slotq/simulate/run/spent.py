"""What projects with a budget spend during a simulation, exactly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from slotq_core.model.jobs import Job
from slotq_core.model.projects import NOTHING_SPENT, BudgetStanding, Spending
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.state.quotas.budgets import budgets_of
from slotq_core.usage.amounts import Window
from slotq_core.usage.calendar_days import month_of, next_month


class Spent:
    def __init__(self, configuration: Snapshot, before: Spending = NOTHING_SPENT) -> None:
        """`before`: what had been spent when the run begins."""
        self._projects = {each.name for each in configuration.projects if each.budget is not None}
        self._month = Window(start=before.month, end=_end_of(before.month))
        self._slot_ms = Counter(before.slot_ms)
        self._warned = set(before.warned)

    def note(self, before: Job | None, after: Job, now: int) -> None:
        """Add the attempt that this change ends, if it ends one."""
        ended = before.attempt if before and not after.attempt else None
        if ended is not None and after.project in self._projects:
            self._turn(now)
            held = self._month.part_of(ended.admitted_at, now)
            self._slot_ms[after.project] += after.demand.slots * held

    def spending(self) -> Spending:
        return Spending(
            month=self._month.start,
            slot_ms=dict(self._slot_ms),
            warned=frozenset(self._warned),
        )

    def warnings(self, snapshot: Snapshot, now: int) -> Iterator[BudgetStanding]:
        """Yield who has come near the budget since the last call."""
        for name, standing in budgets_of(snapshot, now).items() if self._projects else ():
            if standing.is_near and not standing.warned:
                self._turn(now)
                self._warned.add(name)
                yield standing

    def _turn(self, now: int) -> None:
        """Begin anew if the month has turned."""
        month = Window(start=month_of(now), end=next_month(now))
        if month != self._month:
            self._month = month
            self._slot_ms.clear()
            self._warned.clear()


def _end_of(month: int) -> int:
    """The end of a known month; the month of `NOTHING_SPENT` has none."""
    return next_month(month) if month else 0
