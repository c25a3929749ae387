"""`slotq transfer`."""

from __future__ import annotations

import click

from slotq.cli.app import App, json_option
from slotq.cli.each import change_each
from slotq.cli.name_arguments import ProjectName
from slotq.cli.selection import Selection, selecting
from slotq_core.model.jobs import QUEUED_STATES


@click.command
@click.argument("target", metavar="PROJECT", type=ProjectName())
@selecting(fit=sorted(QUEUED_STATES))
@json_option
@click.pass_obj
def transfer(app: App, target: str, *, chosen: Selection) -> None:
    """Give jobs that hold no slots to PROJECT.

    They keep their entry time, and get the project's pools if they name none. A running job stays
    in its project; `slotq requeue` ends its attempt.
    """
    change_each(app, chosen, "transfer", lambda jobs: jobs.transfer(target))
