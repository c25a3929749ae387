"""`slotq cancel`."""

from __future__ import annotations

import click

from slotq.cli.app import App, json_option
from slotq.cli.each import on_each
from slotq.cli.names import names_argument


@click.command
@names_argument()
@json_option
@click.pass_obj
def cancel(app: App, names: tuple[str, ...]) -> None:
    """Cancel jobs, whether they wait or run. One that runs is stopped first."""
    client = app.client()
    on_each(app, client, names, client.cancel)
