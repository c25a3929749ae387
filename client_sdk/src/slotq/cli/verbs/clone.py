"""`slotq clone`."""

from __future__ import annotations

import click

from slotq.cli.app import App, json_option
from slotq.cli.each import on_each
from slotq.cli.name_arguments import JobName
from slotq.cli.words import PRIORITY


@click.command
@click.argument("name", type=JobName(None))
@click.argument("new_name")
@click.option("--priority", type=PRIORITY, help="High first; else that of the first.")
@json_option
@click.pass_obj
def clone(app: App, name: str, new_name: str, *, priority: int | None) -> None:
    """Submit the request of job NAME once more, as NEW_NAME.

    It finds the first one's checkpoints, where both write to the same place.
    """
    client = app.client()
    on_each(app, client, [name], lambda name: client.clone(name, new_name, priority=priority))
