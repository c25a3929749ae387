"""`slotq groups`."""

from __future__ import annotations

import click

from slotq.cli.app import App, json_option, wide_option
from slotq.errors import NotAllowed, UnexpectedAnswer
from slotq.output.group_tables import groups_of, groups_table
from slotq_core.wire.groups.views import GroupsView


@click.command
@click.option("--all", "everything", is_flag=True, help="Also groups whose jobs have all ended.")
@wide_option
@json_option
@click.pass_obj
def groups(app: App, /, *, everything: bool) -> None:
    """List gangs and sweeps: how they stand, and how many of their jobs are in each state."""
    client = app.client()
    try:
        found = client.groups(ended=everything)
    except (NotAllowed, UnexpectedAnswer):  # A queue of an earlier release, or a narrow policy.
        found = groups_of(client.jobs(), ended=everything)
    view = GroupsView(groups=found)
    app.answer(view, groups_table(view))
