"""Names on the command line: completed by the shell, and forgiven where they are nearly right."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from difflib import get_close_matches
from typing import Any

import click
from click.shell_completion import CompletionItem

from slotq.cli.app import App
from slotq.cli.words import Word
from slotq.client import QueueClient
from slotq.configuration.settings import load
from slotq.errors import NoSuchJob, SlotQError
from slotq.output.plain_table import LIVING
from slotq.transport.discovery import complete
from slotq.transport.signed_http import Transport

PATIENCE = 1.5
"""Seconds that a completion may take: somebody waits with a finger on the key."""
_SHOWN = 3


class JobName(Word):
    """A job's name; completed with those of jobs in `states` (None: in any)."""

    name = "name"

    def __init__(self, states: Sequence[str] | None = LIVING) -> None:
        self._states = states

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if str(value).startswith("-"):
            raise click.NoSuchOption(str(value), ctx=ctx)
        return str(value)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return in_time(
            lambda: [
                CompletionItem(job.name, help=job.state)
                for job in quick_client(ctx).jobs(self._states)
                if job.name.startswith(incomplete)
            ]
        )


class PoolNames(Word):
    """Pools, comma separated; the last is completed."""

    name = "pools"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        before, comma, last = incomplete.rpartition(",")
        there = before.split(",")
        return in_time(
            lambda: [
                CompletionItem(f"{before}{comma}{pool.name}", help=pool.instance_type)
                for pool in quick_client(ctx).pools()
                if pool.name.startswith(last) and pool.name not in there
            ]
        )


def names_argument(states: Sequence[str] | None = LIVING) -> Callable[[Any], Any]:
    """One or more jobs, by name."""
    return click.argument("names", nargs=-1, required=True, metavar="NAME...", type=JobName(states))


def some_names_argument(states: Sequence[str]) -> Callable[[Any], Any]:
    """The same, where options may select the jobs instead."""
    return click.argument("names", nargs=-1, metavar="[NAME]...", type=JobName(states))


def quick_client(ctx: click.Context) -> QueueClient:
    """The queue, asked once and not for long. The group's options are not in the App yet: while it
    completes, click runs no command."""
    app = ctx.find_object(App)
    if app is not None and app.connect is not None:
        return app.connect(app.endpoint)
    options = ctx.find_root().params
    config = complete(load({key: options.get(key) for key in ("endpoint", "profile")}))
    transport = Transport(config, tries=1, timeout=(PATIENCE, PATIENCE))
    return QueueClient(config=config, transport=transport)


def in_time(find: Callable[[], list[CompletionItem]]) -> list[CompletionItem]:
    """What was found within PATIENCE; nothing where there is no queue to ask. A completion never
    complains: its words would stand in the middle of the command line."""
    found: list[CompletionItem] = []

    def run() -> None:
        with suppress(Exception):
            found.extend(find())

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    return list(found)


def nearest(name: str, there: Iterable[str]) -> str:
    """`Did you mean …?`, or nothing where no name is near."""
    found = get_close_matches(name, list(there), _SHOWN)
    return f"Did you mean {' or '.join(found)}?" if found else ""


class Hints:
    """What to try where there is no such job; the queue is asked for its names once."""

    def __init__(self, client: QueueClient) -> None:
        self._client = client
        self._names: list[str] | None = None

    def of(self, error: SlotQError, name: str) -> str:
        if not isinstance(error, NoSuchJob) or not name:
            return ""
        if self._names is None:
            try:
                self._names = [job.name for job in self._client.jobs()]
            except SlotQError:
                self._names = []
        return nearest(name, self._names)
