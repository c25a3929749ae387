"""`slotq cancel`."""

from __future__ import annotations

import click

from slotq.cli.app import App, json_option
from slotq.cli.tables import explanation


@click.command
@click.argument("name")
@json_option
@click.pass_obj
def cancel(app: App, name: str) -> None:
    """Cancel a job, whether it waits or runs. A running one is stopped first."""
    job = app.client().cancel(name)
    app.answer(job, explanation(job))
