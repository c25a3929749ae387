"""`slotq logs`: of a job, or of all members of a group."""

from __future__ import annotations

import click

from slotq.cli.app import App, json_option
from slotq.cli.groups.group_logs import group_logs
from slotq.cli.name_arguments import JobName
from slotq.cli.on_jobs import job_or_group, named
from slotq.cli.views.watching import every_option, follow_job
from slotq.errors import InvalidRequest, NotAllowed
from slotq.jobs.job_logs import RIGHTS, LogTail
from slotq.output.job_tables import explanation
from slotq.output.json_views import LogLine
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
    client = app.client()
    found = job_or_group(client, name, attempts=True) if attempt is None else None
    if isinstance(found, GroupView):
        group_logs(app, client, found, following=following, every=every)
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
