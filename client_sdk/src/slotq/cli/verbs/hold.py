"""`slotq hold`."""

from __future__ import annotations

import click

from slotq.cli.app import App, json_option
from slotq.cli.each import change_each
from slotq.cli.selection import Selection, selecting
from slotq.jobs.many import Many
from slotq_core.model.jobs import WAITING_STATES, JobState


@click.command
@selecting(fit=sorted({*WAITING_STATES, JobState.BACKOFF}))
@json_option
@click.pass_obj
def hold(app: App, *, chosen: Selection) -> None:
    """Keep waiting jobs from starting until they are released. They keep their entry time."""
    change_each(app, chosen, "hold", Many.hold)
