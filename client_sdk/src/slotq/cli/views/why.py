"""`slotq why`."""

from __future__ import annotations

import click

from slotq.cli.app import App, json_option
from slotq.cli.each import on_each
from slotq.cli.name_arguments import names_argument


@click.command
@names_argument(states=None)
@json_option
@click.pass_obj
def why(app: App, names: tuple[str, ...]) -> None:
    """Explain why a job waits: what holds the slots, what is reserved, when to expect a change."""
    client = app.client()
    on_each(app, client, names, client.job)
