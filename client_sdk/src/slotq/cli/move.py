"""`slotq move`."""

from __future__ import annotations

import click

from slotq.cli.app import App, json_option
from slotq.cli.each import on_each
from slotq.cli.names import PoolNames, names_argument


@click.command
@click.argument("pools", type=PoolNames())
@names_argument()
@json_option
@click.pass_obj
def move(app: App, pools: str, names: tuple[str, ...]) -> None:
    """Let jobs run in POOLS (comma separated, the most welcome first) and in no others.

    A running attempt stays where it is; `slotq requeue` ends it.
    """
    client = app.client()
    on_each(app, client, names, lambda name: client.move(name, pools))
