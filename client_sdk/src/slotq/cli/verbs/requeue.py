"""`slotq requeue`."""

from __future__ import annotations

import click

from slotq.cli.app import App, json_option
from slotq.cli.each import change_each
from slotq.cli.selection import Selection, selecting
from slotq.jobs.many import Many
from slotq_core.model.jobs import ACTIVE_STATES


@click.command
@selecting(fit=sorted(ACTIVE_STATES))
@json_option
@click.pass_obj
def requeue(app: App, *, chosen: Selection) -> None:
    """Stop the running attempt of jobs; the jobs wait again.

    Each keeps its entry time and its checkpoints, so it may start again at once if no job is
    ahead of it.
    """
    change_each(app, chosen, "requeue", Many.requeue)
