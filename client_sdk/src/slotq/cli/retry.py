"""`slotq retry`."""

from __future__ import annotations

import click

from slotq.cli.app import App, json_option
from slotq.cli.each import on_each
from slotq.cli.names import names_argument
from slotq.cli.words import PRIORITY
from slotq_core.model.jobs import TERMINAL_STATES, JobState


@click.command
@names_argument(states=sorted(TERMINAL_STATES - {JobState.COMPLETED}))
@click.option("--name", "new_name", help="The new job's name, where one job is tried again.")
@click.option("--priority", type=PRIORITY, help="High first; else that of the first.")
@json_option
@click.pass_obj
def retry(app: App, names: tuple[str, ...], *, new_name: str | None, priority: int | None) -> None:
    """Submit jobs that failed, were cancelled or were stopped once more.

    A name is used once: the new job is called NAME-r2, or the next that is free. It goes on from
    the first one's checkpoints.
    """
    if new_name is not None and len(names) > 1:
        raise click.UsageError("--name is for one job; without it each gets the next free name")
    client = app.client()
    on_each(app, client, names, lambda name: client.retry(name, new_name, priority=priority))
