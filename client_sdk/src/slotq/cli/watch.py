"""`slotq watch`: the queue, or one job to its end."""

from __future__ import annotations

from typing import NoReturn

import click
from rich.console import Console
from rich.live import Live

from slotq.cli.app import App, json_option
from slotq.cli.exits import Exit
from slotq.cli.tables import queue_table
from slotq.client import QueueClient
from slotq.follow import follow, news
from slotq_core.model import JobState
from slotq_core.wire import JobView, queue_view


@click.command
@click.argument("name", required=False)
@click.option(
    "--every",
    type=click.FloatRange(0.2, 3600),
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="How often to ask.",
)
@json_option
@click.pass_obj
def watch(app: App, name: str | None, every: float) -> None:
    """Show the queue as it changes, until Ctrl-C; or follow the job NAME until it has ended.

    The exit code says whether the job completed. With --json: one document for each change.
    """
    if name is not None:
        follow_job(app, app.client(), name, every=every)
    else:
        _watch_queue(app, app.client(), every)


def follow_job(app: App, client: QueueClient, name: str, *, every: float = 5.0) -> NoReturn:
    """Follow a job to its end and exit with OK if it completed, else NO."""
    seen: list[JobView] = []

    def changed(job: JobView) -> None:
        if app.json and news(seen[-1] if seen else None, job):
            click.echo(job.model_dump_json())
        seen[:] = [job]

    try:
        job = follow(
            lambda: client.job(name),
            say=lambda line: None if app.json else click.echo(line),
            clock=app.clock,
            sleep=app.sleep,
            poll=every,
            each=changed,
        )
    except KeyboardInterrupt:
        click.echo(f"\n{name} is still in the queue; `slotq cancel {name}` cancels it", err=True)
        raise
    raise click.exceptions.Exit(int(Exit.OK if job.state == JobState.COMPLETED else Exit.NO))


def _watch_queue(app: App, client: QueueClient, every: float) -> NoReturn:
    console = app.console()
    if console.is_terminal and not app.json:
        _live(app, client, console, every)
    before: list[JobView] | None = None
    while True:
        jobs = client.jobs()
        if jobs != before:
            app.line(queue_view(jobs), "")
            if not app.json:
                console.print(queue_table(jobs))
        before = jobs
        app.sleep(every)


def _live(app: App, client: QueueClient, console: Console, every: float) -> NoReturn:
    with Live(console=console, auto_refresh=False) as live:
        while True:
            live.update(queue_table(client.jobs()), refresh=True)
            app.sleep(every)
