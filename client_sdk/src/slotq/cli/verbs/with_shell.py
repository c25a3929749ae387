"""`slotq submit --shell` and `--forward`: a job that is entered when it starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

import click

from slotq.cli.verbs.request_file import is_stdin
from slotq.cli.views.entering import EnterTarget, check_machine, enter
from slotq.errors import NoShell, SlotQError
from slotq.remote_shell.request import check_project, with_remote_debug
from slotq_core import names
from slotq_core.model.jobs import TERMINAL_STATES

if TYPE_CHECKING:
    from slotq.cli.app import App
    from slotq.client import QueueClient
    from slotq.remote_shell.ports import Forward


def check_usage(
    app: App, file: TextIO | None, *, opens_shell: bool, forwards: Sequence[Forward], wait: bool
) -> None:
    """Raises UsageError if --shell or --forward cannot be combined with the rest of the command
    line."""
    what = "--shell" if opens_shell else "--forward"
    if opens_shell and forwards:
        raise click.UsageError("give --shell or --forward; `slotq shell NAME` opens the other")
    if wait:
        raise click.UsageError(f"give {what} or --wait: {what} waits until the job starts")
    if app.json:
        raise click.UsageError(f"{what} has no JSON: it takes the terminal")
    if opens_shell and file is not None and is_stdin(file):
        raise click.UsageError("--shell needs the standard input: save the request in a file")


def with_shell(client: QueueClient, request: Mapping[str, Any], *, dry_run: bool) -> dict[str, Any]:
    """The request of a job in which a shell can be opened, checked as far as possible before
    submission.

    Raises NoShell with what this machine, the request or its project lacks.
    """
    if not dry_run:
        check_machine(client)
    made = with_remote_debug(request)
    found = _project(client, made)
    if found is not None:
        check_project(made, *found)
    return made


def enter_at_start(
    app: App, client: QueueClient, name: str, forwards: Sequence[Forward]
) -> NoReturn:
    """Open a shell when the job starts, or forward its ports, and exit with the exit code."""
    entry = EnterTarget(name=name, forwards=forwards)
    ends = f"`slotq cancel {name}` ends the job"
    try:
        code = enter(app, client, entry, wait=True)
    except NoShell as error:
        again = f"{name} goes on: `{entry.command}` tries again, {ends}"
        raise app.fail(error, again if _goes_on(client, name) else "") from error
    if not forwards and _goes_on(client, name):
        click.echo(f"{name} goes on: `slotq shell {name}` opens another shell, {ends}", err=True)
    raise click.exceptions.Exit(code)


def _project(client: QueueClient, request: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """The name of the job's project and its entry in the configuration; None if the job has no
    project, or the caller may not read the configuration: the queue decides later."""
    tags = {tag.get("Key"): tag.get("Value") for tag in request.get("Tags") or ()}
    try:
        name = tags.get(names.PROJECT_TAG) or next(
            (project.name for project in client.service.me().projects if project.default), None
        )
        projects = client.projects().projects if name else []
    except SlotQError:
        return None
    return next(
        ((project.name, project.project) for project in projects if project.name == name), None
    )


def _goes_on(client: QueueClient, name: str) -> bool:
    try:
        return client.jobs.view(name).state not in TERMINAL_STATES
    except SlotQError:
        return False  # The shell's exit code counts, not this.
