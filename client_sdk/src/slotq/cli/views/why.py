"""`slotq why`."""

from __future__ import annotations

import click

from slotq.cli.app import App, json_option
from slotq.cli.groups.job_or_group import show_each
from slotq.cli.name_arguments import names_argument
from slotq.output.group_tables import group_explanation
from slotq.output.job_tables import explanation


@click.command
@names_argument(states=None)
@json_option
@click.pass_obj
def why(app: App, names: tuple[str, ...]) -> None:
    """Explain why a job or a gang waits: what holds the slots, what is reserved, when to expect a
    change."""
    show_each(app, names, explanation, group_explanation)
