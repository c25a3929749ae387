"""`slotq release`."""

from __future__ import annotations

import click

from slotq.cli.app import App, json_option
from slotq.cli.each import change_each
from slotq.cli.selection import Selection, selecting
from slotq.jobs.many import Many
from slotq_core.model.jobs import JobState


@click.command
@selecting(fit=[JobState.HELD])
@json_option
@click.pass_obj
def release(app: App, *, chosen: Selection) -> None:
    """Let held jobs wait again, each at its old entry time."""
    change_each(app, chosen, "release", Many.release)
