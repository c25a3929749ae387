"""`slotq clone`."""

from __future__ import annotations

import click

from slotq.cli.app import App, json_option
from slotq.cli.each import on_each
from slotq.cli.name_arguments import JobName, to_project_option
from slotq.cli.words import PRIORITY
from slotq.output.group_tables import group_page
from slotq.output.job_tables import submission


@click.command
@click.argument("names", type=JobName(None), nargs=-1, required=True, metavar="[NAME] NEW_NAME")
@click.option("--group", metavar="GROUP", help="Clone this group, with its rules.")
@click.option(
    "--priority", type=PRIORITY, help="High first: a number, or a class.  [the first job's]"
)
@to_project_option
@json_option
@click.pass_obj
def clone(
    app: App,
    names: tuple[str, ...],
    *,
    group: str | None,
    priority: int | str | None,
    to_project: str | None,
) -> None:
    """Submit the request of job NAME again as NEW_NAME; with --group, those of a group's jobs.

    It continues from the first job's checkpoints if both use the same place. A place that the
    queue provided is the first job's alone. The job grid-1 of a group grid becomes NEW_NAME-1.
    """
    if len(names) != (2 if group is None else 1):
        raise click.UsageError("say what to clone: NAME NEW_NAME, or --group GROUP NEW_NAME")
    *given, new_name = names
    client = app.client()
    if group is not None:
        made = client.groups.clone(group, new_name, priority=priority, project=to_project)
        app.answer(made, group_page(made))
        return
    on_each(
        app,
        client,
        given,
        lambda name: client.jobs.clone(name, new_name, priority=priority, project=to_project),
        submission,
    )
