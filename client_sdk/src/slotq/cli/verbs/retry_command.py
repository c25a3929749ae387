"""`slotq retry`."""

from __future__ import annotations

from dataclasses import replace

import click

from slotq.cli.app import App, json_option
from slotq.cli.each import change_each
from slotq.cli.selection import Selection, selecting
from slotq.cli.words import PRIORITY
from slotq_core.model.jobs import TERMINAL_STATES, JobState


@click.command
@selecting(fit=sorted(TERMINAL_STATES - {JobState.COMPLETED}))
@click.option("--as", "new_name", metavar="NAME", help="The new job's name, for one job.")
@click.option("--priority", type=PRIORITY, help="High first; else that of the first.")
@json_option
@click.pass_obj
def retry(app: App, *, chosen: Selection, new_name: str | None, priority: int | None) -> None:
    """Submit jobs that failed, were cancelled or were stopped once more.

    A name is used once: the new job is called NAME-r2, or the next that is free. It goes on from
    the first one's checkpoints.
    """
    if new_name is None and chosen.names and chosen.glob is not None:
        # `--name` was the first name of `--as`: accept `retry JOB --name NEW`.
        chosen, new_name = replace(chosen, glob=None), chosen.glob
    if new_name is not None and not chosen.one:
        raise click.UsageError("--as is for one job; without it each gets the next free name")
    change_each(app, chosen, "retry", lambda jobs: jobs.retry(new_name=new_name, priority=priority))
