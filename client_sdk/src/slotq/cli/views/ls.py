"""`slotq ls`: the jobs, once or again and again; `slotq groups`: the groups."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from slotq.cli.app import App, json_option, projects_option, wide_option
from slotq.cli.name_arguments import PoolNames, check_pool
from slotq.cli.selection import who_i_am
from slotq.cli.views.watching import WATCHED, every_option, on_terminal, show_changes
from slotq.cli.words import MomentWord
from slotq.errors import NotAllowed, UnexpectedAnswer
from slotq.jobs.rendering import JobList
from slotq.output.columns import COLUMNS, in_order, queue_table
from slotq.output.plain_table import LIVING
from slotq_core.model.jobs import JobState
from slotq_core.spelling import did_you_mean

if TYPE_CHECKING:
    from slotq.client import QueueClient
    from slotq_core.wire.views.jobs import JobView

MOST = 100_000
"""Largest number of jobs to show: a hundred requests."""


def _columns(_: click.Context, __: click.Parameter, text: str | None) -> list[str] | None:
    if text is None:
        return None
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in COLUMNS:
            raise click.BadParameter(
                f"there is no column '{name}'; the columns are {', '.join(COLUMNS)}"
                + did_you_mean(name, COLUMNS)
            )
    return names


@click.command
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice([state.value for state in JobState]),
    help="Only jobs in this state; may be given several times.",
)
@click.option("--all", "everything", is_flag=True, help="Also jobs that have ended.")
@projects_option
@click.option("--mine", is_flag=True, help="Only your jobs (whoami says whose).")
@click.option("--submitter", help="Only jobs of this user: an ARN, or a name in it.")
@click.option("--pool", type=PoolNames(), help="Only jobs that run or may run in this pool.")
@click.option(
    "--since",
    type=MomentWord(),
    metavar="MOMENT",
    help="Only jobs that entered since then (2h, 7d, a date).",
)
@click.option(
    "--until",
    type=MomentWord(),
    metavar="MOMENT",
    help="Only jobs that entered before (2h, 7d, a date).",
)
@click.option(
    "--sort",
    metavar="[-]COLUMN",
    type=click.Choice([sign + name for name in COLUMNS for sign in ("", "-")]),
    help="Sort by a column, with - in reverse.  [the order of the queue]",
)
@click.option(
    "--columns",
    callback=_columns,
    metavar="NAMES",
    help=f"The columns to show, comma separated: {', '.join(COLUMNS)}.",
)
@click.option(
    "--limit",
    type=click.IntRange(1, MOST),
    metavar="NUMBER",
    help="Show at most this many jobs.  [1000]",
)
@click.option("--watch", is_flag=True, help="Show every change, until Ctrl-C.")
@every_option
@wide_option
@json_option
@click.pass_obj
def ls(
    app: App,
    /,
    *,
    columns: list[str] | None,
    watch: bool,
    every: float,
    mine: bool,
    **wanted: Any,
) -> None:
    """List jobs that have not ended, in the order of the queue: running, then waiting."""
    if mine and wanted["submitter"] is not None:
        raise click.UsageError("--mine and --submitter exclude each other")
    from slotq_core.wire.views.jobs import queue_view

    client = app.client()
    if mine:
        wanted["submitter"] = who_i_am(client).person
    project = wanted.pop("projects") or None
    whole = project or wanted["sort"] or wanted["limit"] or not (watch and on_terminal(app))
    fetch = _fetcher(client, project=project, first=None if whole else WATCHED, **wanted)

    apart = wanted["sort"] is None

    def shown(jobs: list[JobView]) -> Any:
        return queue_table(jobs, columns, apart=apart)

    if watch:
        show_changes(app, fetch, shown, every=every)
    jobs = fetch()
    if not jobs:
        check_pool(client, wanted["pool"])
    app.answer(queue_view(jobs, more=jobs.more), shown(jobs))
    if jobs.more:
        further = min(10 * len(jobs), MOST)
        click.echo(
            f"slotq: there are more jobs than these {len(jobs):,}; `--limit {further}` "
            "shows more, and --state, --project, --pool or --mine select",
            err=True,
        )


def _fetcher(
    client: QueueClient,
    *,
    states: tuple[str, ...],
    everything: bool,
    sort: str | None,
    limit: int | None,
    since: datetime | None,
    until: datetime | None,
    first: int | None,
    **filters: Any,
) -> Callable[[], JobList]:
    """A function that fetches the jobs to show. It asks for a whole answer even if few are shown:
    a shorter one has no places. With `sort`, the limit applies after sorting. `first`: only so many
    jobs, with their places: they cost what is shown."""
    from slotq.jobs.job_calls import MOST_AT_ONCE

    chosen = states or (None if everything else LIVING)
    filters |= {"since": since, "until": until}
    if first is not None:
        return lambda: client.jobs(chosen, limit=first, places=True, **filters)
    asked = limit if limit and limit > MOST_AT_ONCE else None

    def fetch() -> JobList:
        jobs = client.jobs(chosen, limit=asked, **filters)
        shown = JobList((in_order(jobs, sort) if sort else jobs)[:limit])
        shown.more, shown.examined = jobs.more or len(shown) < len(jobs), jobs.examined
        return shown

    return fetch


@click.command
@click.option("--all", "everything", is_flag=True, help="Also groups whose jobs have all ended.")
@wide_option
@json_option
@click.pass_obj
def groups(app: App, /, *, everything: bool) -> None:
    """List gangs and sweeps: their states, and how many of their jobs are in each state."""
    from slotq.output.group_tables import groups_of, groups_table
    from slotq_core.wire.groups.views import GroupsView

    client = app.client()
    try:
        found = client.groups(ended=everything)
    except (NotAllowed, UnexpectedAnswer):  # A queue of an earlier release, or a narrow policy.
        found = groups_of(client.jobs(), ended=everything)
    view = GroupsView(groups=found)
    app.answer(view, groups_table(view))
