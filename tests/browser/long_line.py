"""5,000 waiting jobs behind the page's server: in pages of 1,000, and all at once with places. The
API itself gives at most 1,000 at once."""

from __future__ import annotations

import json
import sys
import threading
from dataclasses import dataclass, field

from slotq.ui.built_page import BuiltPage
from slotq.ui.logs import Logs
from slotq.ui.own_calls import OwnCalls
from slotq.ui.page_server import PageServer
from slotq.ui.relay import PageRelay
from slotq_core.wire.scenario.views import ScenarioView
from slotq_core.wire.views.about import MeView
from slotq_core.wire.views.jobs import JobView, QueueView
from slotq_core.wire.views.pools import PoolsView
from tests.unit.client.fake_aws import FakeLogs
from tests.unit.client.fake_queue import pool_view, running, waiting
from tests.unit.client.fake_scenario import fake_scenario

WAITING = 5_000
A_PAGE = 1_000


@dataclass
class Said:
    content: bytes
    status_code: int = 200
    headers: dict[str, str] = field(default_factory=dict)


class LongLine:
    """Answers what the page asks; everything is made beforehand."""

    def __init__(self) -> None:
        self.service = self
        why = "no slot is free: 4 of 4 are used, and 12 jobs are ahead of it"
        line = [waiting(place, why, name=f"train-{place}") for place in range(1, WAITING + 1)]
        jobs = [running(name="runs"), *line]
        queue = QueueView(jobs=jobs, more=True)
        me = MeView(caller="arn:aws:iam::123456789012:user/ada", person="ada", why="a user")
        pools = PoolsView(pools=[pool_view(used=4)])
        said = {"/jobs": queue, "/pools": pools, "/me": me}
        self._said = {path: view.model_dump_json().encode() for path, view in said.items()}
        ends = range(A_PAGE, len(jobs) + A_PAGE, A_PAGE)
        self._pages = [
            QueueView(
                jobs=jobs[end - A_PAGE : end],
                more=end < len(jobs),
                next=str(end) if end < len(jobs) else None,
            )
            .model_dump_json()
            .encode()
            for end in ends
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
        asked = query or {}
        if path == "/jobs" and "places" not in asked:
            following = asked.get("next", ["0"])
            assert isinstance(following, list)
            return Said(self._pages[int(following[0]) // A_PAGE])
        if path in self._said:
            return Said(self._said[path])
        return Said(self.view(path.rsplit("/", 1)[-1]).model_dump_json().encode())

    def scenario(self) -> ScenarioView:
        return fake_scenario()

    def view(self, name: str) -> JobView:
        return waiting(1, name=name)


def main() -> None:
    line = LongLine()
    server = PageServer(
        port=0,
        page=BuiltPage(),
        relay=PageRelay(line),
        logs=Logs(line, FakeLogs),
        own=OwnCalls(line),
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(json.dumps({"link": server.gate.link(), "waiting": WAITING}), flush=True)
    sys.stdin.read()
    server.shutdown()


if __name__ == "__main__":
    main()
