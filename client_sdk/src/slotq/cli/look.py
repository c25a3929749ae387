"""`slotq ls`, `show`, `why` and `pools`: looking, without changing anything."""

from __future__ import annotations

import click

from slotq.cli.app import App, json_option
from slotq.cli.tables import explanation, job_page, pools_table, queue_table
from slotq_core.model import JobState
from slotq_core.wire import PoolsView, queue_view


@click.command
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice([state.value for state in JobState]),
    help="Only jobs in this state; may be given several times.",
)
@click.option("--limit", type=click.IntRange(1, 1000), help="At most so many.")
@json_option
@click.pass_obj
def ls(app: App, states: tuple[str, ...], limit: int | None) -> None:
    """The jobs in the order of the queue: running, waiting by place, ended."""
    jobs = app.client().jobs(states or None, limit=limit)
    app.answer(queue_view(jobs), queue_table(jobs))


@click.command
@click.argument("name")
@json_option
@click.pass_obj
def show(app: App, name: str) -> None:
    """All about one job, its attempts included."""
    job = app.client().job(name)
    app.answer(job, job_page(job))


@click.command
@click.argument("name")
@json_option
@click.pass_obj
def why(app: App, name: str) -> None:
    """Why a job waits, or where it stands: what could be evicted for it, what is reserved, when."""
    job = app.client().job(name)
    app.answer(job, explanation(job))


@click.command
@json_option
@click.pass_obj
def pools(app: App) -> None:
    """The pools: what they have, what is used, and what SageMaker's refusals have taught."""
    view = app.client().pools()
    app.answer(PoolsView(pools=view), pools_table(view))
