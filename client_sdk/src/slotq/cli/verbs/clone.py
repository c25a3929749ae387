"""`slotq clone`."""

from __future__ import annotations

import click

from slotq.cli.app import App, json_option
from slotq.cli.each import on_each
from slotq.cli.name_arguments import JobName, to_project_option
from slotq.cli.words import PRIORITY


@click.command
@click.argument("name", type=JobName(None))
@click.argument("new_name")
@click.option("--priority", type=PRIORITY, help="High first.  [the first job's]")
@to_project_option
@json_option
@click.pass_obj
def clone(
    app: App, name: str, new_name: str, *, priority: int | str | None, to_project: str | None
) -> None:
    """Submit the request of job NAME again as NEW_NAME.

    It continues from the first job's checkpoints if both use the same place. A place that the
    queue provided is the first job's alone.
    """
    client = app.client()
    on_each(
        app,
        client,
        [name],
        lambda name: client.clone(name, new_name, priority=priority, project=to_project),
    )
