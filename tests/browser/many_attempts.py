"""5,000 attempts in two pools within a day, behind the page's server: every seventh was evicted."""

from __future__ import annotations

import json
import random
import sys
import threading
from bisect import bisect_right
from datetime import UTC, datetime, timedelta

from slotq.ui.built_page import BuiltPage
from slotq.ui.logs import Logs
from slotq.ui.own_calls import OwnCalls
from slotq.ui.page_server import PageServer
from slotq.ui.relay import PageRelay
from slotq_core.wire.views.usage import AttemptsPageView, EvictionView, HeldSlotsView
from tests.browser.long_line import LongLine, Said
from tests.unit.client.fake_aws import FakeLogs

ATTEMPTS = 5_000
A_PAGE = 1_000
BEGIN = datetime(2026, 11, 20, tzinfo=UTC)
LENGTH = timedelta(days=1)


def held(number: int, chance: random.Random) -> HeldSlotsView:
    begin = BEGIN + LENGTH * chance.random() * 0.9
    # Most are short: narrower than a point where a day is drawn.
    end = begin + timedelta(seconds=chance.choice((5, 20, 40, 600, 3600)) * chance.random())
    runs = begin + (end - begin) * 0.1
    evicted = EvictionView(
        job=f"urgent-{number}", project="speech", submitter="", lost_since=begin.isoformat()
    )
    is_evicted = number % 7 == 0
    return HeldSlotsView(
        job=f"train-{number}",
        number=1,
        project="vision",
        submitter="arn:aws:iam::123456789012:user/ada",
        workload="training",
        pool=("p4", "p5")[number % 2],
        instance_type="ml.p5.48xlarge",
        slots=1,
        admitted_at=begin.isoformat(),
        running_since=runs.isoformat(),
        ended_at=end.isoformat(),
        outcome="evicted" if is_evicted else "completed",
        evicted=evicted if is_evicted else None,
    )


def successors(
    attempts: list[HeldSlotsView],
) -> list[tuple[HeldSlotsView, HeldSlotsView | None]]:
    """Each attempt with the first of its pool that begins after its end."""
    pools: dict[str, list[HeldSlotsView]] = {}
    for each in sorted(attempts, key=lambda each: each.admitted_at):
        pools.setdefault(each.pool, []).append(each)
    begins = {pool: [each.admitted_at for each in there] for pool, there in pools.items()}

    def successor(of: HeldSlotsView) -> HeldSlotsView | None:
        at = bisect_right(begins[of.pool], of.ended_at or "")
        return pools[of.pool][at] if at < len(pools[of.pool]) else None

    return [(each, successor(each)) for each in attempts]


def with_successor(both: tuple[HeldSlotsView, HeldSlotsView | None]) -> HeldSlotsView:
    """An evicted attempt makes room for its successor."""
    of, successor = both
    if of.evicted is None or successor is None:
        return of
    return of.model_copy(update={"evicted": of.evicted.model_copy(update={"job": successor.job})})


class ManyAttempts(LongLine):
    """Answers GET /attempts with the same five pages, whatever the window."""

    def __init__(self) -> None:
        super().__init__()
        chance = random.Random(1)
        attempts = [*map(with_successor, successors([held(n, chance) for n in range(ATTEMPTS)]))]
        self._pages = [
            AttemptsPageView(
                start=BEGIN.isoformat(),
                end=(BEGIN + LENGTH).isoformat(),
                as_of=(BEGIN + LENGTH).isoformat(),
                attempts=attempts[first : first + A_PAGE],
                next=str(first + A_PAGE) if first + A_PAGE < ATTEMPTS else None,
            )
            .model_dump_json()
            .encode()
            for first in range(0, ATTEMPTS, A_PAGE)
        ]

    def call(
        self,
        method: str,
        path: str,
        *,
        query: dict[str, object] | None,
        body: bytes | None,
        known: str,
    ) -> Said:
        if path != "/attempts":
            return super().call(method, path, query=query, body=body, known=known)
        following = (query or {}).get("next", ["0"])
        assert isinstance(following, list)
        return Said(self._pages[int(following[0]) // A_PAGE])


def main() -> None:
    queue = ManyAttempts()
    server = PageServer(
        port=0,
        page=BuiltPage(),
        relay=PageRelay(queue),
        logs=Logs(queue, FakeLogs),
        own=OwnCalls(queue),
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    window = "from=2026-11-20T00:00:00.000Z&to=2026-11-21T00:00:00.000Z"
    print(
        json.dumps({"link": server.gate.link(f"/timeline?{window}"), "attempts": ATTEMPTS}),
        flush=True,
    )
    sys.stdin.read()
    server.shutdown()


if __name__ == "__main__":
    main()
