"""`slotq sweep`: jobs under one name, of which a limited number runs at once."""

from __future__ import annotations

from typing import Any, TextIO

import click

from slotq.cli.app import App, json_option
from slotq.cli.verbs.request_file import name_of, read_object
from slotq.output.group_tables import group_page

_KEYS = ("name", "max_parallel", "members")


@click.command
@click.argument("file", type=click.File(encoding="utf-8"))
@click.option(
    "--max-parallel",
    type=click.IntRange(min=1),
    metavar="N",
    help="The most jobs that hold slots at once, instead of the file's number.",
)
@json_option
@click.pass_obj
def sweep(app: App, /, file: TextIO, *, max_parallel: int | None) -> None:
    """Put jobs into the queue under one name, all or none.

    FILE (JSON or YAML; - for stdin) has a name, max_parallel, and as members a list of
    CreateTrainingJob requests. At most max_parallel of the jobs hold slots at once.
    """
    said = read_object(file, "a sweep")
    if max_parallel is not None:
        said = {**said, "max_parallel": max_parallel}
    _check(said, name_of(file))
    client = app.client()
    group = client.submit_group(said["name"], said["members"], max_parallel=said["max_parallel"])
    app.answer(group, group_page(group))


def _check(said: dict[str, Any], file: str) -> None:
    """Raises UsageError unless these are the keys of a sweep."""
    if missing := [key for key in _KEYS if key not in said]:
        raise click.UsageError(f"{file} has no {missing[0]}: a sweep has {', '.join(_KEYS)}")
    if more := sorted(said.keys() - {*_KEYS}):
        raise click.UsageError(f"{file} has {more[0]}: a sweep has only {', '.join(_KEYS)}")
    members = said["members"]
    if not isinstance(members, list) or not all(isinstance(each, dict) for each in members):
        raise click.UsageError(f"members of {file} must be a list of CreateTrainingJob requests")
