"""`slotq gang`: jobs that start together or not at all."""

from __future__ import annotations

from typing import Any, TextIO

import click

from slotq.cli.app import App, json_option
from slotq.cli.verbs.request_file import name_of, read_object
from slotq.output.group_tables import group_page
from slotq_core.spelling import did_you_mean, similar_names

_NEEDED = ("name", "members")
_KEYS = (*_NEEDED, "gang")
_FORMS = (
    ("mandatory", list | str | None, "a list of jobs"),
    ("sites", dict | None, "an object: the site of each job"),
)


@click.command
@click.argument("file", type=click.File(encoding="utf-8-sig"))
@click.option(
    "--min-members",
    type=click.IntRange(min=1),
    metavar="N",
    help="How many jobs must run at once.  [the file's number, else all]",
)
@click.option(
    "--mandatory",
    multiple=True,
    metavar="JOB",
    help="A job without which the gang does not start; may be given several times.",
)
@click.option("--same-pool", is_flag=True, help="All jobs run in one pool.")
@click.option(
    "--elastic",
    is_flag=True,
    help="Jobs beyond --min-members are evicted one by one and join again. All run in one pool.",
)
@json_option
@click.pass_obj
def gang(
    app: App,
    /,
    file: TextIO,
    *,
    min_members: int | None,
    mandatory: tuple[str, ...],
    same_pool: bool,
    elastic: bool,
) -> None:
    """Put jobs into the queue that start together, or not at all.

    FILE (JSON or YAML; - for stdin) has a name, as members a list of CreateTrainingJob requests,
    and where not all must start the rules as gang: min_members, mandatory, same_pool, elastic.
    Options replace the file's rules.
    """
    said = read_object(file, "a gang")
    _check(said, name_of(file))
    options = {
        "min_members": min_members,
        "mandatory": mandatory or None,
        "same_pool": same_pool or None,
        "elastic": elastic or None,
    }
    rules = {
        **(said.get("gang") or {}),
        **{key: value for key, value in options.items() if value is not None},
    }
    group = app.client().groups.submit_gang(said["name"], said["members"], **rules)
    app.answer(group, group_page(group))


def _check(said: dict[str, Any], file: str) -> None:
    """Raises UsageError unless these are the keys of a gang."""
    from slotq_core.wire.groups.group_submission import GangBody

    if "max_parallel" in said:
        raise click.UsageError(
            f"{file} has max_parallel: its jobs are independent; use `slotq sweep`"
        )
    if more := sorted(said.keys() - {*_KEYS}):
        near = similar_names(more[0], (*_KEYS, *GangBody.model_fields), 1)
        where = " below gang" if near and near[0] not in _KEYS else ""
        hint = f"; did you mean {near[0]!r}{where}?" if near else ""
        raise click.UsageError(f"{file} has {more[0]}: a gang has only {', '.join(_KEYS)}{hint}")
    if missing := [key for key in _NEEDED if key not in said]:
        raise click.UsageError(f"{file} has no {missing[0]}: a gang has {', '.join(_NEEDED)}")
    members, rules = said["members"], said.get("gang") or {}
    if not isinstance(members, list) or not all(isinstance(member, dict) for member in members):
        raise click.UsageError(f"members of {file} must be a list of CreateTrainingJob requests")
    known = ", ".join(GangBody.model_fields)
    if not isinstance(rules, dict) or (more := sorted(rules.keys() - GangBody.model_fields.keys())):
        hint = did_you_mean(more[0], GangBody.model_fields) if isinstance(rules, dict) else ""
        raise click.UsageError(f"gang of {file} takes {known}, and nothing else{hint}")
    for rule, kinds, what in _FORMS:
        if not isinstance(rules.get(rule), kinds):
            raise click.UsageError(f"{rule} of {file} must be {what}")
