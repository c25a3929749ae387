"""`slotq retry`, `slotq clone`: submit a request once more."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from slotq.cli.app import App, json_option
from slotq.cli.name_arguments import JobName, to_project_option
from slotq.cli.on_jobs import change_each, on_each
from slotq.cli.selection import Selection, selecting
from slotq.cli.words import PRIORITY
from slotq.errors import NoSuchGroup, NoSuchJob, NotAllowed, UnexpectedAnswer
from slotq.output.group_tables import group_page
from slotq.output.job_tables import submission
from slotq_core.model.jobs import TERMINAL_STATES, JobState

if TYPE_CHECKING:
    from slotq.client import QueueClient
    from slotq_core.wire.groups.views import GroupView


@click.command
@selecting(fit=sorted(TERMINAL_STATES - {JobState.COMPLETED}))
@click.option("--as", "new_name", metavar="NAME", help="The new job's name; for one job only.")
@click.option(
    "--priority", type=PRIORITY, help="High first: a number, or a class.  [the first job's]"
)
@to_project_option
@json_option
@click.pass_obj
def retry(
    app: App,
    *,
    chosen: Selection,
    new_name: str | None,
    priority: int | str | None,
    to_project: str | None,
) -> None:
    """Resubmit jobs that failed, were cancelled or were stopped; of a sweep, those of its trials.

    Each becomes a new job named NAME-r2, or the next free name. It continues from the first job's
    checkpoints. The retry of a member of your sweep takes the member's place in it.
    """
    if new_name is None and chosen.names and chosen.glob is not None:
        # `--name` was the first name of `--as`: accept `retry JOB --name NEW`.
        chosen, new_name = replace(chosen, glob=None), chosen.glob
    if new_name is not None and not chosen.one:
        raise click.UsageError(
            "--as names one job only; without it each job gets the next free name"
        )
    change_each(
        app,
        _members_too(app.client(), chosen),
        "retry",
        lambda jobs: jobs.retry(new_name=new_name, priority=priority, project=to_project),
        submission,
    )


def _members_too(client: QueueClient, chosen: Selection) -> Selection:
    """The selection with a sweep's name replaced by its trials to retry. Omits trials that a retry
    has replaced already. Raises NoSuchJob if no trial is left."""
    name = chosen.names[0] if chosen.one else chosen.group
    group = _group(client, name, also_job=chosen.group is not None) if name else None
    if group is None:
        return chosen
    found = tuple(job.name for job in group.jobs if job.state in chosen.fit)
    if not found:
        raise NoSuchJob(f"no job of {name} has failed, was cancelled or stopped")
    if chosen.names and chosen.group is not None:
        found = tuple(job for job in found if job in chosen.names)
    return replace(chosen, names=found)


def _group(client: QueueClient, name: str, *, also_job: bool) -> GroupView | None:
    """The group of that name; None if no such group exists, or a job has the name."""
    with suppress(NoSuchJob):
        if not also_job:
            client.jobs.view(name)
            return None
    with suppress(NoSuchGroup, NotAllowed, UnexpectedAnswer):  # A queue of an earlier release.
        return client.groups.view(name)
    return None


@click.command
@click.argument("names", type=JobName(None), nargs=-1, required=True, metavar="[NAME] NEW_NAME")
@click.option("--group", metavar="GROUP", help="Clone this group, with its rules.")
@click.option(
    "--priority", type=PRIORITY, help="High first: a number, or a class.  [the first job's]"
)
@to_project_option
@json_option
@click.pass_obj
def clone(
    app: App,
    names: tuple[str, ...],
    *,
    group: str | None,
    priority: int | str | None,
    to_project: str | None,
) -> None:
    """Submit the request of job NAME again as NEW_NAME; with --group, those of a group's jobs.

    It continues from the first job's checkpoints if both use the same place. A place that the
    queue provided is the first job's alone. The job grid-1 of a group grid becomes NEW_NAME-1.
    """
    if len(names) != (2 if group is None else 1):
        raise click.UsageError("say what to clone: NAME NEW_NAME, or --group GROUP NEW_NAME")
    *sources, new_name = names
    client = app.client()
    if group is not None:
        made = client.groups.clone(group, new_name, priority=priority, project=to_project)
        app.answer(made, group_page(made))
        return
    on_each(
        app,
        client,
        sources,
        lambda name: client.jobs.clone(name, new_name, priority=priority, project=to_project),
        submission,
    )
