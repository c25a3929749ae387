"""`slotq priority`."""

from __future__ import annotations

import click

from slotq.cli.app import App, json_option
from slotq.cli.each import change_each
from slotq.cli.selection import Selection, selecting
from slotq.cli.words import PRIORITY


# This setting passes a negative number, which looks like an unknown option, on as an argument.
@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("number", type=PRIORITY, metavar="NUMBER|CLASS")
@selecting()
@json_option
@click.pass_obj
def priority(app: App, number: int | str, *, chosen: Selection) -> None:
    """Change the priority of jobs (high first), a number or a class.

    This may evict other jobs, or these.
    """
    change_each(app, chosen, "change the priority of", lambda jobs: jobs.set_priority(number))
