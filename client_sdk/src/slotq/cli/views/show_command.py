"""`slotq show`."""

from __future__ import annotations

import click

from slotq.cli.app import App, json_option
from slotq.cli.each import on_each
from slotq.cli.name_arguments import names_argument
from slotq.output.job_tables import job_page


@click.command
@names_argument(states=None)
@json_option
@click.pass_obj
def show(app: App, names: tuple[str, ...]) -> None:
    """Show everything about a job."""
    client = app.client()
    on_each(app, client, names, client.job, job_page)
