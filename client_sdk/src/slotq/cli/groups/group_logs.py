"""`slotq logs GROUP`: the output of all members, with the member's name before each line."""

from __future__ import annotations

import click

from slotq.cli.app import App
from slotq.cli.exits import ExitCode
from slotq.client import QueueClient
from slotq.errors import NotAllowed
from slotq.jobs.follow import ended
from slotq.jobs.job_logs import LATE_READS, RIGHTS, LogTail
from slotq.output.group_tables import group_explanation
from slotq.output.json_views import LogLine
from slotq_core.model.jobs import JobState
from slotq_core.wire.groups.views import GroupView


def group_logs(
    app: App, client: QueueClient, group: GroupView, *, following: bool, every: float
) -> None:
    """Print the lines of every member that has run; with `following` until all have ended. Then
    the exit code says whether the group completed."""
    tails = {job.name: _tail(app, client, group, job.name) for job in group.jobs}
    _show(group, tails)
    if following:
        group = _follow(app, client, group, tails, every)
    for name, tail in tails.items():
        if tail.trouble is not None:
            why = f"the logs of {name} in {group.name} cannot be read: {tail.trouble}"
            raise app.fail(NotAllowed(why), RIGHTS)
    if following:
        click.echo(group_explanation(group), err=True)
        raise click.exceptions.Exit(
            int(ExitCode.OK if group.state == JobState.COMPLETED else ExitCode.NO)
        )


def _follow(
    app: App, client: QueueClient, group: GroupView, tails: dict[str, LogTail], every: float
) -> GroupView:
    """Print new lines until all members have ended. Returns the group as it is then."""
    said = ""
    while True:
        if group.state != said:
            said = group.state
            click.echo(f"{group.name}: {said}", err=True)
        if all(ended(job) for job in group.jobs):
            break
        app.sleep(every)
        group = client.groups.view(group.name, attempts=True)
        _show(group, tails)
    for _ in range(LATE_READS - 1):
        app.sleep(min(1.0, every))
        _show(group, tails)
    return group


def _tail(app: App, client: QueueClient, group: GroupView, job: str) -> LogTail:
    """The log of one member. Names are padded, so that the lines begin in one column."""
    width = max(len(job.name) for job in group.jobs)
    return LogTail(
        app.aws(client, "logs"),
        say=lambda line: click.echo(f"{job}: {line}", err=True),
        line=lambda training_job, text: app.line(
            LogLine(job=job, training_job=training_job, message=text), f"{job:<{width}} | {text}"
        ),
    )


def _show(group: GroupView, tails: dict[str, LogTail]) -> None:
    for job in group.jobs:
        if job.name in tails:
            tails[job.name].show(job)
