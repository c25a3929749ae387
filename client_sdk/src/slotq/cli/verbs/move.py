"""`slotq move`."""

from __future__ import annotations

import click

from slotq.cli.app import App, json_option
from slotq.cli.each import change_each
from slotq.cli.name_arguments import PoolNames
from slotq.cli.selection import Selection, selecting


@click.command
@click.argument("pools", type=PoolNames())
@selecting()
@json_option
@click.pass_obj
def move(app: App, pools: str, *, chosen: Selection) -> None:
    """Let jobs run only in POOLS (comma separated, best first).

    A running attempt stays where it is; `slotq requeue` ends it.
    """
    change_each(app, chosen, "move", lambda jobs: jobs.move(pools))
