"""`slotq submit JOB_FOLDER`: a federated job.

Each submission is a new run, as in FLARE: `hospitals`, then `hospitals-r2` …. With --name the
submission is the group of that name: the same folder again is the same group.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from slotq.cli.dry_run import asked, show_dry_run
from slotq.cli.words import Pair, Word
from slotq.errors import CannotReach, NameTaken
from slotq.jobs.submission import settings_tags, with_tags
from slotq.output.group_tables import group_page
from slotq_core.model.reasons import units

if TYPE_CHECKING:
    from slotq.cli.app import App
    from slotq.client import QueueClient
    from slotq.federated.job_folder import JobFolder
    from slotq.federated.members import FederatedGroup
    from slotq_core.wire.groups.views import GroupView

V = TypeVar("V")

_PER_SITE = ("pools", "demand")
"""Settings that meta.json gives each site."""
_OWN = ("file", "name", "dry_run")
"""The other parameters that a federated job has."""
_OF_A_SIMULATION = ("image", "role", "output", "instance_type")
"""Those that a job has, too, which FLARE's simulator runs: nothing else says them."""

sites_option = click.option(
    "--site",
    "sites",
    type=Pair(),
    multiple=True,
    metavar="SITE=POOL",
    help="The pool of a site of a JOB_FOLDER, or of its server; may be given several times.",
)


class FileOrFolder(Word):
    """A file, which is opened, or the path of a folder."""

    name = "file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and Path(value).is_dir():
            return Path(value)
        # Opened when it is read: a process has few files open at once.
        return click.File(encoding="utf-8-sig", lazy=True).convert(value, param, ctx)


def option_of(name: str) -> str:
    """The option behind a name of `slotq submit`, without its hyphens."""
    spelt = {"inputs": "input", "environment": "env", "workload": "class", "forwards": "forward"}
    return spelt.get(name, name).replace("_", "-")


def submit_folder(
    app: App,
    parameters: Mapping[str, Any],
    *,
    sites: Mapping[str, str],
    settings: Mapping[str, Any],
) -> None:
    """Submit a federated job, or print what would be submitted. `parameters`: those of `slotq
    submit`, `file` being the folder; `settings`: those that become tags."""
    from slotq.federated.job_folder import job_in
    from slotq.federated.members import group_of, marked, runs_of

    _check_usage(parameters, settings)
    client = app.client()
    pools = client.pools()
    names = [pool.name for pool in pools]
    name = parameters["name"]
    job = job_in(parameters["file"], pools=names, mapped=sites, name=name)
    config = replace(client.config, **_of_a_simulation(parameters, job))
    tags = settings_tags(**{key: settings[key] for key in settings if key not in _PER_SITE})
    taken = _taken(client)
    runs = iter([job.meta.name] if name else runs_of(job.meta, taken))
    run_id = None if name else secrets.token_hex(8)

    def made(run: str) -> FederatedGroup:
        return group_of(job.named(run), config, pools, tags=tags)

    def put(group: FederatedGroup, *, dry_run: bool = False) -> GroupView:
        members = marked(group.members, run_id)
        return client.groups.submit_gang(group.name, members, **group.gang, dry_run=dry_run)

    group = made(next(runs))
    for line in (*job.warnings, *group.warnings):
        app.warn(line)
    if parameters["dry_run"] or group.uploads:
        group, would = _with_a_name(
            group, runs, made, lambda group: asked(lambda: put(group, dry_run=True))
        )
    if parameters["dry_run"]:
        members = [with_tags(member, client.tags) for member in group.members]
        show_dry_run(app, {"name": group.name, "gang": group.gang, "members": members}, would)
        return
    _upload(app, app.aws(client, "s3") if group.uploads else None, group)

    def submitted(group: FederatedGroup) -> GroupView:
        _say(app, _submitting(group, job.meta.name, taken))
        return put(group)

    _, view = _with_a_name(group, runs, made, submitted)
    app.answer(view, group_page(view))


def _with_a_name(
    group: FederatedGroup,
    others: Iterator[str],
    made: Callable[[str], FederatedGroup],
    put: Callable[[FederatedGroup], V],
) -> tuple[FederatedGroup, V]:
    """Submit the group with `put` under the first of these names that is free; returns the group
    and the result of `put`. A name may belong to a group that the caller cannot see, or have been
    taken just now."""
    while True:
        try:
            return group, put(group)
        except NameTaken:
            other = next(others, None)
            if other is None:
                raise
            group = made(other)


def _submitting(group: FederatedGroup, name: str, taken: Collection[str]) -> str:
    what = f"submitting {units(len(group.members), 'members')} of {group.name}"
    if group.name != name:
        return f"{what}: {name} has been submitted before"
    if name in taken:
        return f"{what}, which exists: the same folder is the same run (--name)"
    return what


def _taken(client: QueueClient) -> set[str]:
    """The names of the groups that the caller sees."""
    return {group.name for group in client.groups(ended=True)}


def _check_usage(parameters: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Raises UsageError for an option that does not apply to federated jobs."""
    if parameters["command"]:
        raise click.UsageError("give a folder or a command line after --, not both")
    for name, value in parameters.items():
        if value and name not in (*_OWN, *_OF_A_SIMULATION):
            raise _not_for_folders(name)
    for name in _PER_SITE:
        if settings[name]:
            raise click.UsageError(
                f"--{name} is not for a JOB_FOLDER: meta.json says it for each site"
            )


def _of_a_simulation(parameters: Mapping[str, Any], job: JobFolder) -> dict[str, Any]:
    """The options of a job that FLARE's simulator runs. Raises UsageError for any other job."""
    given = {name: value for name in _OF_A_SIMULATION if (value := parameters.get(name))}
    if given and not job.is_simulated:
        raise _not_for_folders(next(iter(given)))
    return given


def _not_for_folders(option: str) -> click.UsageError:
    return click.UsageError(
        f"--{option_of(option)} is not for a JOB_FOLDER: the job.json of each app has its request"
    )


def _upload(app: App, s3: Any, group: FederatedGroup) -> None:
    """Upload the code of the apps. Raises CannotReach."""
    from boto3.exceptions import Boto3Error
    from botocore.exceptions import BotoCoreError, ClientError

    for uri, content in group.uploads.items():
        bucket, _, key = uri.removeprefix("s3://").partition("/")
        try:
            s3.put_object(Bucket=bucket, Key=key, Body=content)
        except (Boto3Error, BotoCoreError, ClientError) as error:
            raise CannotReach(
                f"the code cannot be uploaded to {uri}: {error}. Check that the bucket exists and "
                "that you have s3:PutObject on it."
            ) from None
        _say(app, f"uploaded {uri} ({len(content) / 1000:,.0f} kB)")


def _say(app: App, line: str) -> None:
    if not app.json:
        click.echo(line, err=True)
