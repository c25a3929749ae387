"""Dry submissions: asked for by `--dry-run`, and before anything is uploaded."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import click

from slotq.errors import NoDryRuns, Refused
from slotq_core.model.reasons import units

if TYPE_CHECKING:
    from slotq.cli.app import App, Failure
    from slotq_core.wire.groups.views import GroupView
    from slotq_core.wire.views.jobs import JobView

V = TypeVar("V", "JobView", "GroupView")

_NOT_ASKED = "this queue does not say what would come of it"


def asked(put: Callable[[], V]) -> V | None:
    """The answer to the dry submission `put`; None: the queue cannot say. Raises the refusal."""
    try:
        return put()
    except NoDryRuns:
        return None


def show_dry_run(app: App, submission: Any, found: JobView | GroupView | None) -> None:
    """Print what would be submitted, and on stderr what the queue would do with it. `found`: the
    result of `asked`."""
    click.echo(json.dumps(submission, indent=2))
    if app.json:
        return
    click.echo(f"nothing was submitted; {_said(found) if found else _NOT_ASKED}", err=True)
    for warning in dict.fromkeys(text for job in _jobs(found) for text in job.warnings):
        click.echo(f"warning: {warning}", err=True)


def show_dry_runs(app: App, requests: Sequence[Any], put: Callable[[Any], JobView]) -> None:
    """Print what would be submitted, and on stderr what the queue would refuse. `put` makes the dry
    submission of one request. Exits with the code of the first refusal."""
    click.echo(json.dumps(requests, indent=2))
    failed: list[Failure] = []
    for request in requests:
        try:
            if asked(partial(put, request)) is None:
                click.echo(f"nothing was submitted; {_NOT_ASKED}", err=True)
                return
        except Refused as error:
            failed.append(app.fail(error))
            failed[-1].show()
    if not app.json:
        taken, of = len(requests) - len(failed), units(len(requests), "jobs")
        click.echo(f"nothing was submitted; the queue would take {taken:,} of {of}", err=True)
    if failed:
        raise click.exceptions.Exit(failed[0].exit_code)


def _said(found: JobView | GroupView) -> str:
    from slotq_core.wire.groups.views import GroupView

    jobs = _jobs(found)
    first = jobs[0]
    project = f"in project {first.project}, " if first.project else ""
    many = f"{units(found.members, 'jobs')} " if isinstance(found, GroupView) else ""
    return (
        f"the queue would take {many or 'the job '}{project}"
        f"with priority {first.priority_class or first.priority} for {_pools(jobs)}"
    )


def _jobs(found: JobView | GroupView | None) -> list[JobView]:
    from slotq_core.wire.groups.views import GroupView

    if found is None:
        return []
    return found.jobs if isinstance(found, GroupView) else [found]


def _pools(jobs: list[JobView]) -> str:
    names = list(dict.fromkeys(pool for job in jobs for pool in (*job.pools, *job.parts)))
    return f"pool{'s' if len(names) > 1 else ''} {', '.join(names)}"
