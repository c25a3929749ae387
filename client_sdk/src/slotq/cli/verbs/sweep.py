"""`slotq sweep` and `slotq submit --array`: jobs under one name, of which a limited number runs at
once."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, TextIO

import click

from slotq.cli.app import App, json_option
from slotq.cli.dry_run import asked, show_dry_run
from slotq.cli.exits import ExitCode
from slotq.cli.verbs.request_file import name_of, read_object
from slotq.output.group_tables import group_page, sweep_page
from slotq_core.model.jobs import JobState
from slotq_core.spelling import did_you_mean

if TYPE_CHECKING:
    from slotq.client import QueueClient
    from slotq.sweeps.members import ArrayRange
    from slotq.sweeps.sweep import Sweep

_NAME = "TrainingJobName"
_LISTED = ("name", "max_parallel", "members")
_KEYS = ("name", "max_parallel", "template", "space")
_MORE = ("trials", "seed", "first", "objective", "halving")
_AFTER = ("after", "after_any")
_WHAT = f"a sweep has {', '.join(_KEYS)}, or {', '.join(_LISTED)}"


@click.command
@click.argument("file", type=click.File(encoding="utf-8-sig"))
@click.option(
    "--max-parallel",
    type=click.IntRange(min=1),
    metavar="N",
    help="The most jobs that hold slots at once, instead of the file's number.",
)
@click.option(
    "--wait",
    is_flag=True,
    help="Say how it goes until all its jobs have ended; exit code 1 unless all have completed.",
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Print the first round's requests, and whether the queue would take them.",
)
@json_option
@click.pass_obj
def sweep(
    app: App, /, file: TextIO, *, max_parallel: int | None, wait: bool, dry_run: bool
) -> None:
    """Put jobs into the queue under one name, all or none.

    FILE (JSON or YAML; - for stdin) has a name, max_parallel, a template (a CreateTrainingJob
    request) and a space: the values to try. Or members, a list of whole requests. At most
    max_parallel of the jobs hold slots at once. With after and after_any, lists of jobs and groups,
    all of them wait for these. The same file again goes on with the same sweep.
    """
    from slotq.sweeps.definition import define
    from slotq.sweeps.sweep import submit_round, submitted

    said = read_object(file, "a sweep")
    if max_parallel is not None:
        said = {**said, "max_parallel": max_parallel}
    if "members" in said:
        _listed(app, said, name_of(file), wait=wait, dry_run=dry_run)
        return
    _check(said, name_of(file), _KEYS, _MORE)
    if not isinstance(said["template"], dict):
        raise click.UsageError(f"template of {name_of(file)} must be a CreateTrainingJob request")
    template = {key: value for key, value in said["template"].items() if key != _NAME}
    if _NAME in said["template"]:
        app.warn(f"{_NAME} of the template has no effect: the jobs are {said['name']}-1 …")
    definition = define(
        **{key: value for key, value in said.items() if key not in _AFTER} | {"template": template}
    )
    client = app.client()
    if dry_run:
        first = definition.first()
        with _waiting_for(client, said):
            would = asked(lambda: submit_round(client, definition, 1, first, dry_run=True))
        show_dry_run(app, definition.requests(1, first), would)
        return
    with _waiting_for(client, said):
        made = submitted(client, definition)
    if wait:
        made.wait(say=lambda line: click.echo(line, err=True), clock=app.clock, sleep=app.sleep)
    show_sweep(app, client, made)
    if wait and made.rounds[-1].state != JobState.COMPLETED:
        raise click.exceptions.Exit(int(ExitCode.NO))


def show_sweep(app: App, client: QueueClient, made: Sweep, sort: str = "") -> None:
    """Print the sweep's last round: its results by a column."""
    group = made.rounds[-1] if len(made.rounds) == 1 else client.groups.view(made.rounds[-1].name)
    assert group.sweep is not None
    app.answer(group, sweep_page(group, group.sweep, made.results(sort)))


def _listed(app: App, said: dict[str, Any], file: str, *, wait: bool, dry_run: bool) -> None:
    """A group whose members are written out."""
    _check(said, file, _LISTED, ())
    members = said["members"]
    if not isinstance(members, list) or not all(isinstance(member, dict) for member in members):
        raise click.UsageError(f"members of {file} must be a list of CreateTrainingJob requests")
    if wait:
        raise click.UsageError("--wait needs a template and a space; `slotq watch` follows a job")
    client = app.client()
    put = partial(client.groups.submit, said["name"], members, max_parallel=said["max_parallel"])
    with _waiting_for(client, said):
        if dry_run:
            show_dry_run(app, members, asked(lambda: put(dry_run=True)))
            return
        group = put()
    app.answer(group, group_page(group))


def _check(said: dict[str, Any], file: str, keys: tuple[str, ...], more: tuple[str, ...]) -> None:
    """Raises UsageError unless these are the keys of a sweep, with valid dependencies."""
    known = (*keys, *more, *_AFTER)
    if unknown := sorted(said.keys() - {*known}):
        hint = did_you_mean(unknown[0], known)
        raise click.UsageError(f"{file} has {unknown[0]}: {_WHAT}{hint}")
    if missing := [key for key in keys if key not in said]:
        raise click.UsageError(f"{file} has no {missing[0]}: {_WHAT}")
    for key in _AFTER:
        names = said.get(key, [])
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise click.UsageError(f"{key} of {file} must be a list of jobs and groups")


def _waiting_for(client: QueueClient, said: Mapping[str, Any]) -> AbstractContextManager[None]:
    """A context that adds the file's dependencies to its submissions."""
    return client.after(*said.get("after", ()), after_any=said.get("after_any", ()))


def check_array_usage(*, wait: bool, again: bool, entered: bool) -> None:
    """Raises UsageError for options that are for one job."""
    for present, option in ((wait, "--wait"), (again, "--again"), (entered, "--shell")):
        if present:
            raise click.UsageError(f"{option} is for one job; leave it out with --array")


def submit_array(
    app: App,
    client: QueueClient,
    request: Mapping[str, Any],
    array: ArrayRange,
    upload_code: Callable[[], None] | None,
    *,
    dry_run: bool,
) -> None:
    """Submit the array under the request's name, and show the group."""
    from slotq.sweeps.members import of_array

    name = str(request["TrainingJobName"])
    requests = of_array(name, request, array.indices)
    put = partial(client.groups.submit, name, requests, max_parallel=array.at_once)
    if dry_run or upload_code is not None:
        would = asked(lambda: put(dry_run=True))
    if dry_run:
        show_dry_run(app, requests, would)
        return
    if upload_code is not None:
        upload_code()
    group = put()
    app.answer(group, group_page(group))


def indexed(command: list[str]) -> list[str]:
    """The command of an array's jobs, which share one script: `{index}` comes from the job's own
    environment. Without `{index}` it stays as it is."""
    from slotq.sweeps.members import INDEX

    if not any(INDEX in word for word in command):
        return command
    return ["sh", "-c", f"exec {' '.join(map(_word, command))}"]


def _word(text: str) -> str:
    """The word, quoted for the shell that inserts the index."""
    from slotq.sweeps.members import INDEX

    parts = (shlex.quote(part) if part else "" for part in text.split(INDEX))
    return '"$SLOTQ_ARRAY_TASK_ID"'.join(parts) if INDEX in text else shlex.quote(text)
