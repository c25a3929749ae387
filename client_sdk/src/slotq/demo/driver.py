"""Runs the demo from its first line to its last, with `--ui` in the browser too."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType

from rich.console import Console

from slotq.client import QueueClient
from slotq.demo.play import Player, quiet
from slotq.demo.proof import Evidence, checks
from slotq.demo.screen import ConsoleScreen, heading, timeline, verdict
from slotq.demo.story import EVICTED, INSTANCE_TYPE, POOL, SLOTS
from slotq.demo.world import emulator
from slotq.ui.built_page import BuiltPage
from slotq.ui.logs import Logs
from slotq.ui.own_calls import OwnCalls
from slotq.ui.page_server import PageServer
from slotq.ui.relay import PageRelay


def run(console: Console, *, speed: float, page: DemoPage | None = None) -> bool:
    """Play the story. Returns whether every check held. Cleans up, after Ctrl-C too.

    With a page, the queue stays in the browser after the story, until Ctrl-C.
    """
    console.print(f"Pool {POOL} has {SLOTS} slots. One second here is {speed:g} s of the story.")
    with terminated_as_interrupted(), quiet(), emulator(f"{POOL}={SLOTS}@{INSTANCE_TYPE}") as aws:
        evidence = Evidence(EVICTED, aws.bucket)
        screen = ConsoleScreen(console)
        queue = QueueClient()
        player = Player(screen=screen, evidence=evidence, queue=queue, speed=speed)
        if page is None:
            return _played(console, player)
        with page.shown(queue) as link:
            console.print(f"The queue is at {link}", soft_wrap=True)
            held = _played(console, player)
            console.print("The page stays until you press Ctrl-C.")
            with suppress(KeyboardInterrupt):
                threading.Event().wait()
            return held


def _played(console: Console, player: Player) -> bool:
    """Play the story and print what came of it. Returns whether every check held."""
    jobs = player.play()
    found = checks(jobs, player.evidence)
    console.print(heading("every attempt on one timeline"))
    console.print(timeline(jobs))
    console.print(heading("checks"))
    console.print(verdict(found))
    held = all(check.held for check in found)
    console.print("\nAll checks passed." if held else "\nA check failed.")
    return held


@contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """Make SIGTERM, and the terminal's end, end the demo as Ctrl-C does, with the same cleaning
    up."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:  # `nohup` ignores the terminal's end.
            signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@dataclass(frozen=True, kw_only=True)
class DemoPage:
    files: BuiltPage
    environment: Mapping[str, str]
    """The user's own variables, which name the browser; the demo itself sees few of them."""

    @contextmanager
    def shown(self, queue: QueueClient) -> Iterator[str]:
        """Serve the page during the context, and open it in the browser. Yields its link."""
        logs = Logs(queue.jobs, lambda: queue.aws.client("logs"))
        server = PageServer(
            port=0,
            page=self.files,
            relay=PageRelay(queue.transport),
            logs=logs,
            own=OwnCalls(queue),
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
