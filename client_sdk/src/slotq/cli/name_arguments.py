"""Names on the command line: completion by the shell, and suggestions for misspelt names."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from slotq.cli.app import App
from slotq.cli.words import Word
from slotq.errors import NoSuchGroup, NoSuchJob, NoSuchPool, SlotQError
from slotq.output.plain_table import LIVING
from slotq_core.spelling import similar_names, unknown

if TYPE_CHECKING:
    from slotq.client import QueueClient

PATIENCE = 1.5
"""Seconds that a completion may take while the user waits."""
_SHOWN = 3


class JobName(Word):
    """A job's name; completes names of jobs in `states` (None: any state)."""

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


class JobNames(JobName):
    """Jobs, separated by commas; completes the last one."""

    name = "names"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        before, comma, last = incomplete.rpartition(",")
        return [
            CompletionItem(f"{before}{comma}{item.value}", help=item.help)
            for item in super().shell_complete(ctx, param, last)
        ]


class PoolNames(Word):
    """Pools, separated by commas; completes the last one."""

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


class ProjectName(Word):
    """A project; completes those that the caller may submit to."""

    name = "project"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return in_time(
            lambda: [
                CompletionItem(project.name, help=project.role)
                for project in quick_client(ctx).service.me().projects
                if project.name.startswith(incomplete) and project.role != "viewer"
            ]
        )


to_project_option = click.option(
    "--to-project", type=ProjectName(), metavar="NAME", help="The new job's.  [the first job's]"
)


def names_argument(states: Sequence[str] | None = LIVING) -> Callable[[Any], Any]:
    """An argument for one or more jobs, by name."""
    return click.argument("names", nargs=-1, required=True, metavar="NAME...", type=JobName(states))


def some_names_argument(states: Sequence[str]) -> Callable[[Any], Any]:
    """An argument for jobs by name, or none if options select the jobs."""
    return click.argument("names", nargs=-1, metavar="[NAME]...", type=JobName(states))


def quick_client(ctx: click.Context) -> QueueClient:
    """A client that tries once, with a short timeout. Takes the group's options from the context:
    during completion click runs no command, so the App lacks them."""
    app = ctx.find_object(App)
    if app is not None and app.connect is not None:
        return app.connect(app.endpoint)
    from slotq.client import QueueClient
    from slotq.configuration.settings import load
    from slotq.transport.discovery import complete
    from slotq.transport.signed_http import Transport

    options = ctx.find_root().params
    config = complete(load({key: options.get(key) for key in ("endpoint", "profile")}))
    transport = Transport(config, tries=1, timeout=(PATIENCE, PATIENCE))
    return QueueClient(config=config, transport=transport)


def in_time(find: Callable[[], list[CompletionItem]]) -> list[CompletionItem]:
    """What `find` returns within PATIENCE; otherwise nothing. Suppresses errors: a message would
    appear in the middle of the command line."""
    import_module("slotq.client")  # Before the time begins: it is the larger part.
    found: list[CompletionItem] = []

    def run() -> None:
        with suppress(Exception):
            found.extend(find())

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    return list(found)


def nearest(name: str, there: Iterable[str]) -> str:
    """`Did you mean …?`, or an empty string if no name is similar."""
    found = similar_names(name, there, _SHOWN)
    return f"Did you mean {' or '.join(found)}?" if found else ""


def check_pool(client: QueueClient, name: str | None) -> None:
    """Raises NoSuchPool if a selecting option names an unknown pool. For a command that has found
    nothing: a removed pool may still have jobs in the history."""
    if name is None:
        return
    try:
        known = [pool.name for pool in client.pools()]
    except SlotQError:
        return  # The caller may see jobs without seeing pools.
    if name not in known:
        raise NoSuchPool(unknown("pool", name, known), field="pool")


class Hints:
    """Suggestions for an unknown job or group; fetches the queue's names only once."""

    def __init__(self, client: QueueClient) -> None:
        self._client = client

    def of(self, error: SlotQError, name: str) -> str:
        if not isinstance(error, NoSuchJob | NoSuchGroup) or not name:
            return ""
        return nearest(name, self._names)

    def of_others(self, error: SlotQError, names: Iterable[str]) -> str:
        """A suggestion for the unknown name that the error reports."""
        said = next((name for name in names if f"'{name}'" in str(error)), None)
        if said is None or said in self._names:
            return ""
        return nearest(said, self._names)

    @cached_property
    def _names(self) -> list[str]:
        """The names of the jobs that have not ended, and of their groups."""
        try:
            jobs = self._client.jobs()
        except SlotQError:
            return []
        groups = dict.fromkeys(job.group for job in jobs if job.group)
        return [*(job.name for job in jobs), *groups]
