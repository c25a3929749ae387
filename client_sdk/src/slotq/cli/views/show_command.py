"""`slotq show`, `slotq why`, `slotq history`: one job or group, in whole or in part."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from rich.console import Group, RenderableType
from rich.text import Text

from slotq.cli.app import App, json_option, wide_option
from slotq.cli.name_arguments import names_argument
from slotq.cli.on_jobs import show_each
from slotq.cli.views.watching import failed_log
from slotq.output.group_tables import group_explanation, group_history, group_page, sweep_page
from slotq.output.job_tables import attempts_table, explanation, job_page

if TYPE_CHECKING:
    from slotq_core.wire.groups.views import GroupView
    from slotq_core.wire.views.jobs import JobView


@click.command
@names_argument(states=None)
@click.option(
    "--sort",
    default="",
    metavar="COLUMN",
    help="For a sweep: objective (the best first), state, name or a parameter; -COLUMN reverses.",
)
@json_option
@click.pass_obj
def show(app: App, names: tuple[str, ...], *, sort: str) -> None:
    """Show everything about a job, or about a group or sweep that no job has the name of."""
    from slotq.sweeps.sweep import sorted_by

    def of_job(job: JobView) -> RenderableType:
        _check_sort(sort, sorts=False)
        log = failed_log(app, app.client(), job) if len(names) == 1 else []
        return Group(job_page(job), Text("\n".join(["", *log]))) if log else job_page(job)

    def of_group(group: GroupView) -> RenderableType:
        sweep = group.sweep
        _check_sort(sort, sorts=sweep is not None)
        if sweep is None:
            return group_page(group)
        sweep.trials = sorted_by(sweep.trials, sort, maximize=sweep.maximize)
        return sweep_page(group, sweep, sweep.trials)

    if len(names) > 1:
        _check_sort(sort, sorts=False)
    show_each(app, names, of_job, of_group)


def _check_sort(sort: str, *, sorts: bool) -> None:
    if sort and not sorts:
        raise click.UsageError("--sort is for one sweep")


@click.command
@names_argument(states=None)
@json_option
@click.pass_obj
def why(app: App, names: tuple[str, ...]) -> None:
    """Explain why a job or a gang waits: what holds the slots, what is reserved, when to expect a
    change."""
    show_each(app, names, explanation, group_explanation)


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
