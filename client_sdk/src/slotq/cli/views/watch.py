"""`slotq watch`: show the queue, or follow one job to its end."""

from __future__ import annotations

import click

from slotq.cli.app import App, json_option
from slotq.cli.name_arguments import JobName
from slotq.cli.views.watching import every_option, follow_job, show_changes
from slotq.output.columns import queue_table
from slotq.output.plain_table import LIVING


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
    show_changes(app, lambda: client.jobs(LIVING), queue_table, every=every)
