"""`slotq graph`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from slotq.cli.app import App, json_option
from slotq.cli.name_arguments import JobName
from slotq.cli.on_jobs import named
from slotq.errors import NoSuchGroup, NoSuchJob
from slotq_core.model.jobs import GROUP_END

if TYPE_CHECKING:
    from slotq.client import QueueClient
    from slotq_core.wire.views.jobs import JobView


@click.command
@click.argument("names", nargs=-1, metavar="[NAME]...", type=JobName(None))
@click.option("--all", "everything", is_flag=True, help="Also where every job has ended.")
@json_option
@click.pass_obj
def graph(app: App, names: tuple[str, ...], *, everything: bool) -> None:
    """Show which jobs and groups come after which, as a tree with their states.

    Without NAME: all jobs that come after others or that others come after. With NAME: those that
    are connected with this job, or with this group (group:NAME).
    """
    from slotq.output.job_graph import GroupNode, JobGraph, graph_tree

    client = app.client()
    listed = client.jobs()
    found = {job.name: job for job in listed}
    groups: dict[str, tuple[JobView, ...]] = {}
    for name in names:
        with named(app, client, name):
            if not _add_group(client, name, groups):
                found[name] = found.get(name) or client.jobs.view(name)
    _add_awaited(client, found, groups)
    for job in found.values():  # Groups with dependencies and without dependents.
        if job.group and job.after and job.group not in groups:
            members = (member for member in found.values() if member.group == job.group)
            groups[job.group] = tuple(members)
    nodes = (GroupNode(name=name, members=members) for name, members in groups.items() if members)
    whole = JobGraph(found.values(), nodes)
    shown = whole.connected_with(names) if names else whole.chains(ended=everything)
    app.answer(whole.view(shown), graph_tree(whole, shown))
    if listed.more:
        click.echo(
            f"slotq: only the first {len(listed):,} jobs were looked at, and what these come "
            "after; `slotq graph NAME` adds the job NAME, or the group group:NAME",
            err=True,
        )


def _add_awaited(
    client: QueueClient, found: dict[str, JobView], groups: dict[str, tuple[JobView, ...]]
) -> None:
    """Add dependencies that the list has left out, as far as the queue still knows them."""
    asked: set[str] = set()
    while missing := {name for job in found.values() for name in job.after} - found.keys() - asked:
        asked |= missing
        for name in missing:
            try:
                if not _add_group(client, name, groups):
                    found[name] = client.jobs.view(name)
            except (NoSuchJob, NoSuchGroup):  # Expired, or the caller may not see it.
                continue
        for members in groups.values():
            found |= {job.name: found.get(job.name, job) for job in members}


def _add_group(client: QueueClient, name: str, groups: dict[str, tuple[JobView, ...]]) -> bool:
    """Add the group if the name is a group's (`group:NAME`). Returns whether it is. Raises
    NoSuchGroup."""
    group = name.removeprefix(GROUP_END)
    if group != name:
        groups[group] = tuple(client.groups.view(group).jobs)
    return group != name
