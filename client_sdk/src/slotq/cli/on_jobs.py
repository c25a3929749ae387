"""Apply a verb to one job or many: show the results, choose the exit code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import click

from slotq.cli.name_arguments import Hints
from slotq.errors import NoSuchGroup, NoSuchJob, NotAllowed, Refused, SlotQError, UnexpectedAnswer
from slotq.jobs.verbs import Outcome
from slotq.output.job_tables import explanation
from slotq_core.model.jobs import WAITING_STATES

if TYPE_CHECKING:
    from rich.console import RenderableType

    from slotq.cli.app import App, Failure
    from slotq.cli.selection import Selection
    from slotq.client import QueueClient
    from slotq.jobs.many import Many
    from slotq_core.wire.groups.views import GroupView
    from slotq_core.wire.views.jobs import JobView

_MANY = 100
"""Submitting so many jobs takes noticeable time."""


@contextmanager
def named(app: App, client: QueueClient, name: str) -> Iterator[None]:
    """Turn a refusal inside into a Failure; for an unknown job, suggest similar names."""
    try:
        yield
    except Refused as error:
        raise app.fail(error, Hints(client).of(error, name)) from error


def on_each(
    app: App,
    client: QueueClient,
    names: Sequence[str],
    verb: Callable[[str], JobView],
    shown: Callable[[JobView], RenderableType] = explanation,
) -> None:
    """Apply `verb` to each job, one after the other, and show the results (see `show_outcomes`)."""
    wanted = list(dict.fromkeys(names))

    def outcomes() -> Iterator[Outcome]:
        for name in wanted:
            try:
                yield Outcome(name=name, job=verb(name))
            except Refused as error:
                yield Outcome(name=name, error=error)

    show_outcomes(app, client, outcomes(), shown, single=len(wanted) == 1)


def change_each(
    app: App,
    chosen: Selection,
    verb: str,
    do: Callable[[Many], Iterable[Outcome]],
    shown: Callable[[JobView], RenderableType] = explanation,
) -> None:
    """Apply `do` to all chosen jobs at once, and show the outcome of each."""
    client = app.client()
    names = chosen.resolved(app, client, verb)
    show_outcomes(
        app,
        client,
        do(client.many(names, states=chosen.states or None)),
        shown,
        single=chosen.one,
    )


def submit_each(
    app: App,
    client: QueueClient,
    requests: Sequence[Mapping[str, Any]],
    shown: Callable[[JobView], RenderableType],
    *,
    dry_run: bool,
) -> None:
    """Submit these jobs, each for itself, and show the outcome of each. What takes more than about
    a second says so."""
    if dry_run:
        from slotq.cli.dry_run import show_dry_runs

        show_dry_runs(app, requests, lambda request: client.submit(request, dry_run=True))
        return
    begun = app.clock()
    if len(requests) >= _MANY and not app.json:
        click.echo(f"submitting {len(requests):,} jobs", err=True)

    def progress(done: int, total: int) -> None:
        if not app.json and done < total and app.clock() - begun >= 1:
            click.echo(f"{done:,} of {total:,} jobs are submitted", err=True)

    outcomes = client.submit_many(requests, progress=progress)
    show_outcomes(app, client, outcomes, shown, single=False)


def looked_at(client: QueueClient, job: JobView) -> JobView:
    """The job with its place and reason if it waits: a verb's own answer has neither. Returns the
    job unchanged if the queue does not answer now, because the verb has succeeded."""
    if job.place is not None or job.state not in WAITING_STATES:
        return job
    try:
        seen = client.jobs.view(job.name)
    except SlotQError:
        return job
    # Only the verb's answer has warnings about the change itself.
    warnings = [*dict.fromkeys([*job.warnings, *seen.warnings])]
    return seen.model_copy(update={"warnings": warnings})


def show_outcomes(
    app: App,
    client: QueueClient,
    outcomes: Iterable[Outcome],
    shown: Callable[[JobView], RenderableType],
    *,
    single: bool,
) -> None:
    """Show every outcome, then exit with the code of the first failure.

    A `single` job that waits is looked at again, for its place and reason. In JSON, a `single` job
    is a JobView; several are a QueueView of the jobs without an error. Each error is an ErrorView
    on stderr.
    """
    done: list[JobView] = []
    failed: list[Failure] = []
    hints = Hints(client)
    for outcome in outcomes:
        if outcome.job is not None:
            done.append(looked_at(client, outcome.job) if single else outcome.job)
            if not app.json:
                app.console().print(shown(done[-1]))
        elif outcome.error is not None:
            failed.append(app.fail(outcome.error, hints.of(outcome.error, outcome.name)))
            if single:
                raise failed[0] from outcome.error
            failed[-1].show()
    if app.json:
        from slotq_core.wire.views.jobs import queue_view

        app.answer(done[0] if single else queue_view(done), "")
    if failed:
        raise click.exceptions.Exit(failed[0].exit_code)


def show_each(
    app: App,
    names: Sequence[str],
    of_job: Callable[[JobView], RenderableType],
    of_group: Callable[[GroupView], RenderableType],
    *,
    attempts: bool = False,
) -> None:
    """Show these jobs. One name without a job is a group's: show that group, with `attempts` the
    members' attempts too."""
    from slotq_core.wire.groups.views import GroupView

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
