"""`slotq requeue`."""

from __future__ import annotations

import click

from slotq.cli.app import App, json_option
from slotq.cli.each import on_each
from slotq.cli.names import names_argument
from slotq_core.model.jobs import ACTIVE_STATES


@click.command
@names_argument(states=sorted(ACTIVE_STATES))
@json_option
@click.pass_obj
def requeue(app: App, names: tuple[str, ...]) -> None:
    """Stop the running attempt of jobs, which go back into the line.

    Each keeps its entry time and its checkpoints, so it may start again at once where nobody is
    ahead of it.
    """
    client = app.client()
    on_each(app, client, names, client.requeue)
