"""The job or the group that a name on the command line means."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from rich.console import RenderableType

from slotq.cli.app import App
from slotq.cli.each import on_each
from slotq.client import QueueClient
from slotq.errors import NoSuchGroup, NoSuchJob, NotAllowed, UnexpectedAnswer
from slotq_core.wire.groups.views import GroupView
from slotq_core.wire.views.jobs import JobView


def show_each(
    app: App,
    names: Sequence[str],
    of_job: Callable[[JobView], RenderableType],
    of_group: Callable[[GroupView], RenderableType],
    *,
    attempts: bool = False,
) -> None:
    """Show the jobs of these names; for one name that no job has, the group of that name, with
    `attempts` the members' attempts too."""
    client = app.client()
    found = job_or_group(client, names[0], attempts=attempts) if len(names) == 1 else None
    if isinstance(found, GroupView):
        app.answer(found, of_group(found))
    else:
        on_each(app, client, names, lambda name: found or client.jobs.view(name), of_job)


def job_or_group(
    client: QueueClient, name: str, *, attempts: bool = False
) -> JobView | GroupView | None:
    """The job of that name, else the group, with `attempts` its members' attempts; None if there
    is neither."""
    try:
        return client.jobs.view(name)
    except NoSuchJob:
        with suppress(NoSuchGroup, NotAllowed, UnexpectedAnswer):  # A queue of an earlier release.
            return client.groups.view(name, attempts=attempts)
    return None
