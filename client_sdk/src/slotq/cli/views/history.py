"""`slotq history`."""

from __future__ import annotations

import click
from rich.console import Group, RenderableType
from rich.text import Text

from slotq.cli.app import App, json_option, wide_option
from slotq.cli.groups.job_or_group import show_each
from slotq.cli.name_arguments import names_argument
from slotq.output.group_tables import group_history
from slotq.output.job_tables import attempts_table, explanation
from slotq_core.wire.views.jobs import JobView


@click.command
@names_argument(states=None)
@wide_option
@json_option
@click.pass_obj
def history(app: App, names: tuple[str, ...]) -> None:
    """List the attempts of a job, or of a group's jobs: where and when each ran, how it ended and
    for whom."""
    show_each(app, names, _page, group_history, attempts=True)


def _page(job: JobView) -> RenderableType:
    head = Text(explanation(job))
    return Group(head, attempts_table(job.attempts)) if job.attempts else head
