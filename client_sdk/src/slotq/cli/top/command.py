"""The command `slotq top`."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

import click
from rich.console import Console, Group
from rich.live import Live

from slotq.cli.app import App, projects_option
from slotq.cli.top.keyboard import Keyboard
from slotq.cli.words import Seconds

if TYPE_CHECKING:
    from rich.text import Text

INSTEAD = "`slotq ls` and `slotq watch` print the queue as text, `slotq ls --json` for programs"


@click.command
@click.option(
    "--every",
    type=Seconds(0.5, 3600, whole=False),
    default=2.0,
    show_default=True,
    help="Ask the queue this often, or less where nothing changes or the list is long.",
)
@projects_option
@click.pass_obj
def top(app: App, every: float, projects: tuple[str, ...]) -> None:
    """Show the queue live: pools, lines and jobs, with keys to change jobs.

    ↑ and ↓ choose a job; c cancels it, h holds or releases it, + and - change its priority; ?
    shows all keys, q quits.
    """
    if app.json:
        raise click.UsageError(f"top has no JSON output: {INSTEAD}")
    if why := missing():
        raise click.UsageError(f"top needs {why}: {INSTEAD}")
    client, console = app.client(), app.console()
    with Keyboard() as keys, Live(console=console, screen=True, auto_refresh=False) as live:
        from slotq.cli.top.loop import Top

        Top(
            client,
            LiveScreen(console, live),
            keys,
            projects=projects,
            every=every,
            clock=app.clock,
            now=lambda: time.time_ns() // 1_000_000,
        ).run()


def missing() -> str:
    """What the terminal lacks for `slotq top`; empty if nothing."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return "a terminal for its screen and its keys"
    if os.environ.get("TERM", "") in {"", "dumb", "unknown"}:
        return "a terminal that can move its cursor (TERM)"
    if "utf" not in sys.stdout.encoding.lower():
        return "a terminal in UTF-8"
    return "" if find_spec("termios") else "a POSIX terminal"


class LiveScreen:
    """The alternate screen of rich."""

    def __init__(self, console: Console, live: Live) -> None:
        self._console, self._live = console, live

    def size(self) -> tuple[int, int]:
        return self._console.size.width, self._console.size.height

    def show(self, drawn: list[Text]) -> None:
        with uninterrupted():  # If interrupted here, rich would not restore the terminal.
            self._live.update(Group(*drawn), refresh=True)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay Ctrl-C until the code inside is done."""
    pressed: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if pressed:
        raise KeyboardInterrupt
