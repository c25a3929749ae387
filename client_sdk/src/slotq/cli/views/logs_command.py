"""`slotq logs`: of a job, or of all members of a group with the member's name before each line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from slotq.cli.app import App, json_option
from slotq.cli.exits import ExitCode
from slotq.cli.name_arguments import JobName
from slotq.cli.on_jobs import job_or_group, named
from slotq.cli.views.watching import every_option, follow_job
from slotq.errors import InvalidRequest, NotAllowed
from slotq.jobs.follow import ended
from slotq.output.group_tables import group_explanation
from slotq.output.job_tables import explanation
from slotq_core.model.jobs import JobState

if TYPE_CHECKING:
    from slotq.client import QueueClient
    from slotq.jobs.job_logs import LogTail
    from slotq_core.wire.groups.views import GroupView
    from slotq_core.wire.views.jobs import JobView


@click.command
@click.argument("name", type=JobName(None))
@click.option("-f", "--follow", "following", is_flag=True, help="Follow until the job has ended.")
@click.option("--attempt", type=click.IntRange(1), help="Only the logs of this attempt.")
@every_option
@json_option
@click.pass_obj
def logs(app: App, name: str, *, following: bool, attempt: int | None, every: float) -> None:
    """Print a job's output, attempt after attempt; of a group, that of all its jobs, named.

    With -f it continues across evictions, and the exit code says whether the job completed. With
    --json each line is a document, and the state of the job goes to stderr.
    """
    from slotq.jobs.job_logs import RIGHTS, LogTail
    from slotq.output.json_views import LogLine
    from slotq_core.wire.groups.views import GroupView

    client = app.client()
    found = job_or_group(client, name, attempts=True) if attempt is None else None
    if isinstance(found, GroupView):
        _group_logs(app, client, found, following=following, every=every)
        return
    tail = LogTail(
        app.aws(client, "logs"),
        say=lambda line: click.echo(line, err=True),
        line=lambda training_job, text: app.line(
            LogLine(job=name, training_job=training_job, message=text), text
        ),
    )

    def look(job: JobView) -> None:
        tail.show(_only(job, attempt))

    with named(app, client, name):
        job = found or client.jobs.view(name)
    if attempt is not None and attempt > job.attempts_begun:
        begun = f"job {name} has begun {job.attempts_begun} attempts; there is no attempt {attempt}"
        raise InvalidRequest(begun, field="attempt")
    if following:
        follow_job(app, client, name, every=every, logs=look)
    look(job)
    if tail.trouble is not None:
        raise app.fail(NotAllowed(f"the logs of {name} cannot be read: {tail.trouble}"), RIGHTS)
    if not job.attempts:
        click.echo(explanation(job), err=True)


def _only(job: JobView, attempt: int | None) -> JobView:
    if attempt is None:
        return job
    chosen = [candidate for candidate in job.attempts if candidate.number == attempt]
    return job.model_copy(update={"attempts": chosen})


def _group_logs(
    app: App, client: QueueClient, group: GroupView, *, following: bool, every: float
) -> None:
    """Print the lines of every member that has run; with `following` until all have ended. Then
    the exit code says whether the group completed."""
    from slotq.jobs.job_logs import RIGHTS

    tails = {job.name: _member_tail(app, client, group, job.name) for job in group.jobs}
    _show_members(group, tails)
    if following:
        group = _follow_group(app, client, group, tails, every)
    for name, tail in tails.items():
        if tail.trouble is not None:
            why = f"the logs of {name} in {group.name} cannot be read: {tail.trouble}"
            raise app.fail(NotAllowed(why), RIGHTS)
    if following:
        click.echo(group_explanation(group), err=True)
        raise click.exceptions.Exit(
            int(ExitCode.OK if group.state == JobState.COMPLETED else ExitCode.NO)
        )


def _follow_group(
    app: App, client: QueueClient, group: GroupView, tails: dict[str, LogTail], every: float
) -> GroupView:
    """Print new lines until all members have ended. Returns the group as it is then."""
    from slotq.jobs.job_logs import LATE_READS

    said = ""
    while True:
        if group.state != said:
            said = group.state
            click.echo(f"{group.name}: {said}", err=True)
        if all(ended(job) for job in group.jobs):
            break
        app.sleep(every)
        group = client.groups.view(group.name, attempts=True)
        _show_members(group, tails)
    for _ in range(LATE_READS - 1):
        app.sleep(min(1.0, every))
        _show_members(group, tails)
    return group


def _member_tail(app: App, client: QueueClient, group: GroupView, job: str) -> LogTail:
    """The log of one member. Names are padded, so that the lines begin in one column."""
    from slotq.jobs.job_logs import LogTail
    from slotq.output.json_views import LogLine

    width = max(len(member.name) for member in group.jobs)
    return LogTail(
        app.aws(client, "logs"),
        say=lambda line: click.echo(f"{job}: {line}", err=True),
        line=lambda training_job, text: app.line(
            LogLine(job=job, training_job=training_job, message=text), f"{job:<{width}} | {text}"
        ),
    )


def _show_members(group: GroupView, tails: dict[str, LogTail]) -> None:
    for job in group.jobs:
        if job.name in tails:
            tails[job.name].show(job)
