"""`slotq release`."""

from __future__ import annotations

import click

from slotq.cli.app import App, json_option
from slotq.cli.each import on_each
from slotq.cli.names import names_argument
from slotq_core.model.jobs import JobState


@click.command
@names_argument(states=[JobState.HELD])
@json_option
@click.pass_obj
def release(app: App, names: tuple[str, ...]) -> None:
    """Let held jobs wait again, each at its old entry time."""
    client = app.client()
    on_each(app, client, names, client.release)
