"""Show changes: redraw a table of jobs, or follow one job to its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import click
from rich.console import Console, RenderableType
from rich.live import Live

from slotq.cli.app import App
from slotq.cli.each import named
from slotq.cli.encoding import as_json
from slotq.cli.exits import Exit
from slotq.cli.words import Amount
from slotq.client import QueueClient
from slotq.jobs.follow import follow, news
from slotq_core.model.jobs import JobState
from slotq_core.wire.views import JobView, queue_view

LAST_LOGS = 2.0
"""Seconds to wait after a job's end for its last log lines."""

every_option = click.option(
    "--every",
    type=Amount(0.2, 3600),
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="How often to ask the queue.",
)


def follow_job(
    app: App,
    client: QueueClient,
    name: str,
    *,
    every: float = 5.0,
    logs: Callable[[JobView], None] | None = None,
) -> NoReturn:
    """Follow a job to its end and exit with OK if it completed, else NO.

    With --json, prints one document per change. If `logs` is given, `logs` prints at each look
    instead, and messages about the job go to stderr.
    """
    try:
        with named(app, client, name):
            job = follow(
                lambda: client.job(name),
                say=_speaker(app, with_logs=logs is not None),
                clock=app.clock,
                sleep=app.sleep,
                poll=every,
                each=logs or _Changes(app).look,
            )
    except KeyboardInterrupt:
        click.echo(f"\n{name} is still in the queue; `slotq cancel {name}` cancels it", err=True)
        raise
    if logs is not None and job.attempts:
        app.sleep(min(LAST_LOGS, every))
        logs(job)
    raise click.exceptions.Exit(int(Exit.OK if job.state == JobState.COMPLETED else Exit.NO))


def _speaker(app: App, *, with_logs: bool) -> Callable[[str], None]:
    if app.json and not with_logs:
        return lambda _: None
    return lambda line: click.echo(line, err=app.json)


class _Changes:
    """Prints a job as JSON whenever it has changed."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._before: JobView | None = None

    def look(self, job: JobView) -> None:
        if self._app.json and news(self._before, job):
            click.echo(as_json(job.model_dump_json()))
        self._before = job


def show_changes(
    app: App,
    fetch: Callable[[], list[JobView]],
    shown: Callable[[list[JobView]], RenderableType],
    *,
    every: float,
) -> NoReturn:
    """Show the jobs as they change, until Ctrl-C: a terminal has one table that is redrawn; other
    output gets one table per change, or one QueueView per line."""
    console = app.console()
    if console.is_terminal and not app.json:
        _live(app, fetch, shown, console, every)
    before: Any = None
    while True:
        jobs = fetch()
        if jobs != before and app.json:
            click.echo(as_json(queue_view(jobs).model_dump_json()))
        elif jobs != before:
            console.print(shown(jobs))
        before = jobs
        app.sleep(every)


def _live(
    app: App,
    fetch: Callable[[], list[JobView]],
    shown: Callable[[list[JobView]], RenderableType],
    console: Console,
    every: float,
) -> NoReturn:
    with Live(console=console, auto_refresh=False) as live:
        while True:
            live.update(shown(fetch()), refresh=True)
            app.sleep(every)
