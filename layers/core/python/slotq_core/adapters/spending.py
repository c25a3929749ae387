"""What projects have spent when a pass loads: what the last tick added up, and the attempts that
have ended since. By one rule for every store.

The end of a job brings a pass at once. Without these attempts, their time would be lost from sight
until the next tick, and a project beyond its budget would start a job with each one that ends.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from slotq_core.model.projects import Spending
from slotq_core.ports.stored import Configuration
from slotq_core.ports.usage import MonthSum, UsageBook
from slotq_core.usage.amounts import Window
from slotq_core.usage.calendar_days import day_of, days, month_of, next_month

MOST = 1_000
"""How many of these attempts one load reads at most. The next tick counts all."""


def spending(stand: Configuration, book: UsageBook, now: int) -> Spending:
    """Return what the projects with a budget have spent. Makes one read of the store, or one for
    each day since the last tick; none where no project has a budget."""
    budgeted = {each.name for each in stand.sharing.projects if each.budget is not None}
    counted = stand.month_sum
    if not budgeted or not counted.settled:
        return stand.spent
    month, told = month_of(now), stand.spent
    if counted.month != month:  # No tick has come since the month turned.
        names = counted.settled
        counted = MonthSum(month=month, day=day_of(month), settled=dict.fromkeys(names, 0))
        told = Spending(month=month)
    since, ended = _since(counted, now, book), counted.slot_ms()
    return replace(told, slot_ms={name: ended[name] + since[name] for name in ended})


def _since(counted: MonthSum, now: int, book: UsageBook) -> Counter[str]:
    """Return what attempts that ended since the count have held in the month."""
    window = Window(start=counted.month, end=next_month(counted.month))
    found, left = Counter[str](), MOST
    first = max(counted.day, counted.latest[: len(counted.day)])
    for day in days(first, max(first, day_of(now))):
        after = counted.latest if counted.latest.startswith(day) else ""
        read = book.ended(day, after=after, limit=left)
        for use in read.uses:
            assert use.ended_at is not None
            found[use.project] += use.slots * window.part_of(use.admitted_at, use.ended_at)
        left -= len(read.uses) + read.unreadable
        if left <= 0:
            break
    return found
