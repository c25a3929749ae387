"""`slotq cancel`."""

from __future__ import annotations

import click

from slotq.cli.app import App, json_option
from slotq.cli.each import change_each
from slotq.cli.selection import Selection, selecting
from slotq.jobs.many import Many


@click.command
@selecting()
@json_option
@click.pass_obj
def cancel(app: App, *, chosen: Selection) -> None:
    """Cancel jobs. A running job is stopped first."""
    change_each(app, chosen, "cancel", Many.cancel)
