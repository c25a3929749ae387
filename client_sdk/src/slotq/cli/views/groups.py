"""`slotq groups`."""

from __future__ import annotations

import click

from slotq.cli.app import App, json_option
from slotq.output.group_tables import groups_table, groups_view


@click.command
@click.option("--all", "everything", is_flag=True, help="Also groups whose jobs have all ended.")
@json_option
@click.pass_obj
def groups(app: App, /, *, everything: bool) -> None:
    """List the groups of jobs: how many of their jobs are in each state."""
    view = groups_view(app.client().jobs(), ended=everything)
    app.answer(view, groups_table(view))
