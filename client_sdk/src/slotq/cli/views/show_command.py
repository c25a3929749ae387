"""`slotq show`."""

from __future__ import annotations

from contextlib import suppress

import click

from slotq.cli.app import App, json_option
from slotq.cli.each import on_each
from slotq.cli.name_arguments import names_argument
from slotq.client import QueueClient
from slotq.errors import NoSuchGroup, NoSuchJob, NotAllowed, UnexpectedAnswer
from slotq.output.group_tables import group_page
from slotq.output.job_tables import job_page
from slotq_core.wire.groups.views import GroupView
from slotq_core.wire.views import JobView


@click.command
@names_argument(states=None)
@json_option
@click.pass_obj
def show(app: App, names: tuple[str, ...]) -> None:
    """Show everything about a job, or about a group that no job has the name of."""
    client = app.client()
    found = _found(client, names[0]) if len(names) == 1 else None
    if isinstance(found, GroupView):
        app.answer(found, group_page(found))
    else:
        on_each(app, client, names, lambda name: found or client.job(name), job_page)


def _found(client: QueueClient, name: str) -> JobView | GroupView | None:
    """The job of that name, else the group; None if there is neither."""
    try:
        return client.job(name)
    except NoSuchJob:
        with suppress(NoSuchGroup, NotAllowed, UnexpectedAnswer):  # A queue of an earlier release.
            return client.group(name)
    return None
