"""A verb over one job or several: what is shown, and which exit code it comes to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import click
from rich.console import RenderableType

from slotq.cli.app import App, Failure
from slotq.cli.names import hint_for
from slotq.cli.tables import explanation
from slotq.client import QueueClient
from slotq.errors import Refused
from slotq_core.wire import JobView, queue_view


@contextmanager
def named(app: App, client: QueueClient, name: str) -> Iterator[None]:
    """A refusal inside is about the job of this name: where there is none, the nearest is told."""
    try:
        yield
    except Refused as error:
        raise app.fail(error, hint_for(error, client, name)) from error


def on_each(
    app: App,
    client: QueueClient,
    names: Sequence[str],
    verb: Callable[[str], JobView],
    shown: Callable[[JobView], RenderableType] = explanation,
) -> None:
    """Do it with each job, whatever becomes of the others, and exit as the first that was refused.

    As JSON: one job is a JobView, several are a QueueView of those with which it was done, and each
    refusal is an ErrorView on stderr. What stops everything (a queue that does not answer) is
    raised.
    """
    wanted = list(dict.fromkeys(names))
    done: list[JobView] = []
    refused: list[Failure] = []
    for name in wanted:
        try:
            with named(app, client, name):
                done.append(verb(name))
        except Failure as failure:
            if len(wanted) == 1:
                raise
            refused.append(failure)
            failure.show()
        else:
            if not app.json:
                app.console().print(shown(done[-1]))
    if app.json:
        app.answer(done[0] if len(wanted) == 1 else queue_view(done), "")
    if refused:
        raise click.exceptions.Exit(refused[0].exit_code)
