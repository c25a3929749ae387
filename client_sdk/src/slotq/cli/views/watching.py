"""Show changes: redraw a table of jobs, or follow one job to its end."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

import click

from slotq.cli.app import App, json_option
from slotq.cli.encoding import as_json
from slotq.cli.exits import ExitCode
from slotq.cli.name_arguments import JobName
from slotq.cli.on_jobs import named
from slotq.cli.words import Seconds
from slotq.jobs.follow import PROGRESS_HEARTBEAT, Pace, follow, news
from slotq.jobs.notices import Warned
from slotq.jobs.rendering import JobList
from slotq.output.columns import queue_table
from slotq.output.plain_table import LIVING
from slotq_core.model.jobs import JobState

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from slotq.client import QueueClient
    from slotq.jobs.progress import ProgressScreen
    from slotq_core.wire.views.jobs import JobView

LAST_LOGS = 2.0
"""Seconds to wait after a job's end for its last log lines."""

every_option = click.option(
    "--every",
    type=Seconds(0.2, 3600, whole=False),
    default=5.0,
    show_default=True,
    help="Ask the queue this often, or less where nothing changes or the list is long.",
)
WATCHED = 200
"""How many jobs a table on a terminal has that is drawn again and again."""


def on_terminal(app: App) -> bool:
    """Whether a table is drawn again and again, instead of one after the other."""
    return app.console().is_terminal and not app.json


def follow_job(
    app: App,
    client: QueueClient,
    name: str,
    *,
    every: float = 5.0,
    logs: Callable[[JobView], None] | None = None,
    submitted: JobView | None = None,
) -> NoReturn:
    """Follow a job to its end and exit with OK if it completed, else NO.

    With --json, prints one document per change. If `logs` is given, `logs` prints at each look
    instead, and messages about the job go to stderr. `submitted`: the answer to the job's
    submission, whose warnings come first.
    """
    screen = _screen(app, with_logs=logs is not None)
    warned = Warned(screen.say)
    if submitted is not None:
        warned.report(submitted, submitted=True)
    try:
        with named(app, client, name):
            job = follow(
                lambda: client.jobs.view(name),
                say=screen.say,
                clock=app.clock,
                sleep=app.sleep,
                poll=every,
                on_view=logs or _Changes(app).look,
                waiting=screen.waiting,
                running=screen.running,
                warned=warned,
                log_of=lambda job: () if logs else failed_log(app, client, job),
            )
    except KeyboardInterrupt:
        click.echo(f"\n{name} is still in the queue; `slotq cancel {name}` cancels it", err=True)
        raise
    if logs is not None and job.attempts:
        app.sleep(min(LAST_LOGS, every))
        logs(job)
    raise click.exceptions.Exit(
        int(ExitCode.OK if job.state == JobState.COMPLETED else ExitCode.NO)
    )


def failed_log(app: App, client: QueueClient, job: JobView) -> list[str]:
    """The last lines of a failed job's log, for people."""
    from slotq.jobs.job_logs import failure_log

    return [] if app.json else failure_log(lambda: app.aws(client, "logs", quick=True), job)


def _screen(app: App, *, with_logs: bool) -> ProgressScreen:
    """The screen for the job. Log lines exclude a terminal's bottom line."""
    from slotq.jobs.progress import Plain, Terminal

    if app.console().is_terminal and not with_logs and not app.json:
        return Terminal(sys.stdout)
    if app.json and not with_logs:
        return Plain(lambda _: None)
    return Plain(lambda line: click.echo(line, err=app.json))


class _Changes:
    """Prints a job as JSON whenever it has changed."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._before: JobView | None = None

    def look(self, job: JobView) -> None:
        further = self._before is not None and self._before.progress != job.progress
        if self._app.json and (further or news(self._before, job)):
            click.echo(as_json(job.model_dump_json()))
        self._before = job


def show_changes(
    app: App,
    fetch: Callable[[], JobList],
    shown: Callable[[list[JobView]], RenderableType],
    *,
    every: float,
) -> NoReturn:
    """Show the jobs as they change, until Ctrl-C: a terminal has one table that is redrawn; other
    output gets one table per change, or one QueueView per line."""
    from slotq_core.wire.views.jobs import queue_view

    console, pace = app.console(), Pace(every)
    if on_terminal(app):
        _live(app, fetch, shown, console, pace)
    before: JobList | None = None
    shown_at = app.clock()
    while True:
        jobs = fetch()
        pause = pace.after(jobs)
        if jobs != before and app.json:
            click.echo(as_json(queue_view(jobs, more=jobs.more).model_dump_json()))
        elif _is_news(before, jobs, app.clock() - shown_at):
            console.print(shown(jobs))
            shown_at = app.clock()
        else:
            jobs = before or JobList()  # Compare with the last printed table.
        before = jobs
        app.sleep(pause)


def _is_news(before: list[JobView] | None, now: list[JobView], ago: float) -> bool:
    """Whether to print another table to a log; for progress alone, only now and then."""
    if before is None or before == now:
        return before is None
    still = {"progress": None}
    moved = [job.model_copy(update=still) for job in now]
    return ago >= PROGRESS_HEARTBEAT or moved != [job.model_copy(update=still) for job in before]


def _live(
    app: App,
    fetch: Callable[[], JobList],
    shown: Callable[[list[JobView]], RenderableType],
    console: Console,
    pace: Pace,
) -> NoReturn:
    from rich.live import Live

    with Live(console=console, auto_refresh=False) as live:
        while True:
            jobs = fetch()
            live.update(shown(jobs), refresh=True)
            app.sleep(pace.after(jobs))


@click.command
@click.argument("name", required=False, type=JobName())
@every_option
@json_option
@click.pass_obj
def watch(app: App, name: str | None, every: float) -> None:
    """Show every change of the queue, until Ctrl-C; or follow job NAME until it has ended.

    The exit code says whether the job completed. With --json: one document for each change.
    """
    client = app.client()
    if name is not None:
        follow_job(app, client, name, every=every)
    first = on_terminal(app)

    def fetch() -> JobList:
        return client.jobs(LIVING, limit=WATCHED if first else None, places=first)

    show_changes(app, fetch, queue_table, every=every)
