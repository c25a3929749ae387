"""`slotq retry`."""

from __future__ import annotations

from dataclasses import replace

import click

from slotq.cli.app import App, json_option
from slotq.cli.each import change_each
from slotq.cli.name_arguments import to_project_option
from slotq.cli.selection import Selection, selecting
from slotq.cli.words import PRIORITY
from slotq_core.model.jobs import TERMINAL_STATES, JobState


@click.command
@selecting(fit=sorted(TERMINAL_STATES - {JobState.COMPLETED}))
@click.option("--as", "new_name", metavar="NAME", help="The new job's name; for one job only.")
@click.option("--priority", type=PRIORITY, help="High first.  [the first job's]")
@to_project_option
@json_option
@click.pass_obj
def retry(
    app: App,
    *,
    chosen: Selection,
    new_name: str | None,
    priority: int | str | None,
    to_project: str | None,
) -> None:
    """Resubmit jobs that failed, were cancelled or were stopped.

    Each becomes a new job named NAME-r2, or the next free name. It continues from the first job's
    checkpoints.
    """
    if new_name is None and chosen.names and chosen.glob is not None:
        # `--name` was the first name of `--as`: accept `retry JOB --name NEW`.
        chosen, new_name = replace(chosen, glob=None), chosen.glob
    if new_name is not None and not chosen.one:
        raise click.UsageError(
            "--as names one job only; without it each job gets the next free name"
        )
    change_each(
        app,
        chosen,
        "retry",
        lambda jobs: jobs.retry(new_name=new_name, priority=priority, project=to_project),
    )
