"""`slotq hold`."""

from __future__ import annotations

import click

from slotq.cli.app import App, json_option
from slotq.cli.each import on_each
from slotq.cli.names import names_argument
from slotq_core.model.jobs import WAITING_STATES, JobState


@click.command
@names_argument(states=sorted({*WAITING_STATES, JobState.BACKOFF}))
@json_option
@click.pass_obj
def hold(app: App, names: tuple[str, ...]) -> None:
    """Keep jobs that wait from starting, until they are released. They keep their entry time."""
    client = app.client()
    on_each(app, client, names, client.hold)
