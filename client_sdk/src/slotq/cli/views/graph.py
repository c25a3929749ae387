"""`slotq graph`."""

from __future__ import annotations

import click

from slotq.cli.app import App, json_option
from slotq.cli.each import named
from slotq.cli.name_arguments import JobName
from slotq.client import QueueClient
from slotq.errors import NoSuchJob
from slotq.output.job_graph import JobGraph, graph_tree
from slotq_core.wire.views import JobView, queue_view


@click.command
@click.argument("names", nargs=-1, metavar="[NAME]...", type=JobName(None))
@click.option("--all", "everything", is_flag=True, help="Also where every job has ended.")
@json_option
@click.pass_obj
def graph(app: App, names: tuple[str, ...], *, everything: bool) -> None:
    """Show which jobs come after which, as a tree with their states.

    Without NAME: all jobs that come after others or that others come after. With NAME: those that
    are connected with this job.
    """
    client = app.client()
    found = {job.name: job for job in client.jobs()}
    for name in names:
        with named(app, client, name):
            found[name] = found.get(name) or client.job(name)
    _add_awaited(client, found)
    whole = JobGraph(found.values())
    shown = whole.connected_with(names) if names else whole.chains(ended=everything)
    app.answer(queue_view(shown), graph_tree(shown))


def _add_awaited(client: QueueClient, found: dict[str, JobView]) -> None:
    """Add the jobs that others come after and that the list has left out, as far as they are still
    known."""
    asked: set[str] = set()
    while missing := {name for job in found.values() for name in job.after} - found.keys() - asked:
        asked |= missing
        for name in missing:
            try:
                found[name] = client.job(name)
            except NoSuchJob:  # Its record has expired, or the caller may not see it.
                continue
