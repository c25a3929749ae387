"""`slotq priority`."""

from __future__ import annotations

import click

from slotq.cli.app import App, json_option
from slotq.cli.each import on_each
from slotq.cli.names import names_argument
from slotq.cli.words import PRIORITY


# A negative number looks like an option that is not known, and is passed on to the arguments.
@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("number", type=PRIORITY)
@names_argument()
@json_option
@click.pass_obj
def priority(app: App, number: int, names: tuple[str, ...]) -> None:
    """Give jobs another priority: high first. It may evict for them, or have them evicted."""
    client = app.client()
    on_each(app, client, names, lambda name: client.set_priority(name, number))
