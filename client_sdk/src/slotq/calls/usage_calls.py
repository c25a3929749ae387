"""`queue.usage`: what jobs have used, and who held slots when."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from slotq.cost.used import Used
from slotq.transport.connection import ConnectedCalls
from slotq_core.usage.amounts import Totals, merge
from slotq_core.wire.views.usage import AttemptsPageView, HeldSlotsView, UsagePageView, totals_in


class UsageCalls(ConnectedCalls):
    """The past. `queue.usage(…)` adds up what jobs have used."""

    def __call__(
        self,
        *,
        start: datetime | None = None,
        end: datetime | None = None,
        by: Sequence[str] = (),
        said: Callable[[UsagePageView], None] = lambda _: None,
    ) -> Used:
        """What jobs have used from `start` to before `end` (default: this month so far), by any of
        `project`, `submitter`, `pool` and `class`. Each attempt counts once, to the millisecond.

        `said` hears each page. Raises InvalidRequest if the window is empty, or begins or ends
        within a day of which the queue no longer keeps single attempts.
        """
        query = _window(start, end)
        if by:
            query["by"] = ",".join(by)
        totals: Totals = {}
        unreadable = 0
        while True:
            page = self._read(UsagePageView, "GET", "/usage", query=query or None)
            said(page)
            unreadable += page.unreadable
            merge(totals, totals_in(page.rows))
            if page.next is None:
                break
            query |= {"from": page.start, "to": page.end, "next": page.next}
        return Used(
            start=page.start,
            end=page.end,
            as_of=page.as_of,
            by=tuple(by),
            totals=totals,
            unreadable=unreadable,
        )

    def attempts(
        self,
        *,
        start: datetime | None = None,
        end: datetime | None = None,
        pool: str = "",
        said: Callable[[AttemptsPageView], None] = lambda _: None,
    ) -> AttemptsPageView:
        """The attempts that held slots from `start` to before `end` (default: the last day), in one
        pool or in all: those that ended, then those that go on. All pages as one.

        `said` hears each page. Raises InvalidRequest if the window is empty.
        """
        query = _window(start, end)
        if pool:
            query["pool"] = pool
        found: list[HeldSlotsView] = []
        gone = unreadable = 0
        while True:
            page = self._read(AttemptsPageView, "GET", "/attempts", query=query or None)
            said(page)
            found += page.attempts
            gone, unreadable = gone + page.gone, unreadable + page.unreadable
            if page.next is None:
                break
            query |= {"from": page.start, "to": page.end, "next": page.next}
        sums = {"gone": gone, "unreadable": unreadable, "settled": None}
        return page.model_copy(update={"attempts": found, **sums})


def _window(start: datetime | None, end: datetime | None) -> dict[str, object]:
    moments = {"from": start, "to": end}
    return {key: it.astimezone(UTC).isoformat() for key, it in moments.items() if it is not None}
