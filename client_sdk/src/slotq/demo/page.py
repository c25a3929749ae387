"""The demo's queue in the browser: `slotq demo --ui`."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from slotq.client import QueueClient
from slotq.ui.built_page import BuiltPage
from slotq.ui.logs import Logs
from slotq.ui.own_calls import OwnCalls
from slotq.ui.page_server import PageServer
from slotq.ui.relay import Relay


@dataclass(frozen=True, kw_only=True)
class Page:
    files: BuiltPage
    environment: Mapping[str, str]
    """The user's own variables, which say what browser there is: the demo has few of them."""

    @contextmanager
    def shown(self, queue: QueueClient) -> Iterator[str]:
        """Serve the page during the context, and open it in the browser. Yields its link."""
        logs = Logs(queue.jobs, lambda: queue.aws.client("logs"))
        server = PageServer(
            port=0, page=self.files, relay=Relay(queue.transport), logs=logs, own=OwnCalls(queue)
        )
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1})
        thread.start()
        link = server.gate.link()
        try:
            with subprocess.Popen(  # noqa: S603 - Python's own module # nosec B603
                [sys.executable, "-m", "webbrowser", link],
                env=dict(self.environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            ):
                yield link
        finally:
            server.shutdown()
            server.server_close()
            thread.join()
