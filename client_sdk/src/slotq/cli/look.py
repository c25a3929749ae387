"""`slotq pools`: looking at them, without changing anything."""

from __future__ import annotations

import click

from slotq.cli.app import App, json_option
from slotq.cli.tables import pools_table
from slotq_core.wire import PoolsView


@click.command
@json_option
@click.pass_obj
def pools(app: App) -> None:
    """The pools: what they have, what is used, and what SageMaker's refusals have taught."""
    view = app.client().pools()
    app.answer(PoolsView(pools=view), pools_table(view))
