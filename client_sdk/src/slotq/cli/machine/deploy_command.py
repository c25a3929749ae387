"""`slotq deploy`: a queue from the folder of a release."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import click

from slotq.cli.app import App, json_option
from slotq_core.spelling import unknown

if TYPE_CHECKING:
    from slotq.deployment.code_bucket import CodeBucket
    from slotq.deployment.release_folder import Release
    from slotq.deployment.stack import Change, Stack
    from slotq.output.json_views import DeploymentView

_ROLES = "ExecutionRoleArns"
"""The parameter without a default."""


# click leaves text after a backspace as it is; a docstring cannot contain one.
_EXAMPLES = """\b
slotq deploy --dir slotq-0.3.0 ExecutionRoleArns=arn:aws:iam::123456789012:role/trainer
slotq deploy --dir slotq-0.3.0 HistoryDays=90 --dry-run"""


@click.command(epilog=_EXAMPLES)
@click.argument("parameters", nargs=-1, metavar="[NAME=VALUE]...")
@click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=".",
    show_default=True,
    help="The folder of the release.",
)
@click.option("--stack", default="slotq", show_default=True, help="The stack's name.")
@click.option("--region", metavar="NAME", help="The queue's region.  [as boto3 finds it]")
@click.option(
    "--bucket",
    metavar="NAME",
    help="The bucket for the code, made if it is missing.  [slotq-ACCOUNT-REGION]",
)
@click.option("--dry-run", is_flag=True, help="Show what would change, and change no stack.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask before an update.")
@json_option
@click.pass_obj
def deploy(
    app: App,
    /,
    *,
    parameters: Sequence[str],
    folder: Path,
    stack: str,
    region: str | None,
    bucket: str | None,
    dry_run: bool,
    yes: bool,
) -> None:
    """Create or update a queue's stack from the folder of a release, with your own credentials.

    NAME=VALUE sets parameters (docs/deploy-parameters.md); an update keeps all others. The code
    goes into a private bucket of your account. Needs neither SAM nor a clone.
    """
    from slotq.deployment.release_folder import CODE_BUCKET, read

    release = read(folder)
    given = _given(parameters, release)
    place, there = _places(app, stack, region, bucket)
    with _aws_errors():
        _fill(place, release)
        _need_roles(there, given)
        url = place.url(release.template_key)
        every = {**given, CODE_BUCKET: place.name}
        changes = there.propose(url, every, known=release.template["Parameters"])
        _show_changes(there, changes)
        deployed = changes is not None and _carry_out(app, there, dry_run=dry_run, yes=yes)
        view = _view(release, place, there, changes or (), deployed=deployed)
    app.answer(view, _said(view, dry_run=dry_run))


def _given(texts: Iterable[str], release: Release) -> dict[str, str]:
    """The parameters on the command line. Raises UsageError for one that the template lacks."""
    given: dict[str, str] = {}
    for text in texts:
        name, is_set, value = text.partition("=")
        if not is_set:
            raise click.UsageError(f"'{text}' is not NAME=VALUE")
        if name not in release.parameters:
            raise click.UsageError(unknown("parameter", name, release.parameters))
        given[name] = value
    return given


def _places(
    app: App, name: str, region: str | None, bucket: str | None
) -> tuple[CodeBucket, Stack]:
    """The bucket and the stack, with clients that have the caller's own credentials."""
    from slotq.deployment.code_bucket import CodeBucket, usual_name
    from slotq.deployment.stack import Stack
    from slotq.errors import NotConfigured
    from slotq.transport.aws_session import made

    session = made(app.config().aws_profile, source="aws_profile", region=region)
    where = session.region_name
    if not where:
        raise NotConfigured("no region is set: name one with --region")
    with _aws_errors():
        account = session.client("sts").get_caller_identity()["Account"]
        place = CodeBucket(
            s3=session.client("s3"),
            account=account,
            region=where,
            name=bucket or usual_name(account, where),
        )
    change_set = f"slotq-{app.now():%Y%m%d-%H%M%S}"
    client = session.client("cloudformation")
    return place, Stack(cloudformation=client, name=name, sleep=app.sleep, change_set=change_set)


def _fill(place: CodeBucket, release: Release) -> None:
    if place.make():
        _tell(f"made the bucket {place.name}")
    for key in place.fill(release.objects):
        _tell(f"uploading {key}")


def _need_roles(there: Stack, given: Mapping[str, str]) -> None:
    """Raises UsageError where a first deployment lacks what has no default."""
    if not there.status() and _ROLES not in given:
        raise click.UsageError(
            f"a first deployment needs {_ROLES}=ARN: the roles under which training jobs may run "
            "(docs/deploy.md)"
        )


def _show_changes(there: Stack, changes: Sequence[Change] | None) -> None:
    if there.status():
        for change in changes or ():
            anew = ", made anew" if change.replaced else ""
            _tell(f"{change.action.lower()} {change.resource} ({change.kind}{anew})")
    elif changes:
        _tell(f"creating stack {there.name} with {len(changes)} resources")


def _carry_out(app: App, there: Stack, *, dry_run: bool, yes: bool) -> bool:
    """Returns whether the changes were made."""
    if dry_run or not _sure(app, there, yes=yes):
        there.take_back()
        return False
    for event in there.carry_out():
        reason = f": {event.reason}" if event.reason else ""
        _tell(f"{event.at} {event.resource} {event.status}{reason}")
    return True


def _sure(app: App, there: Stack, *, yes: bool) -> bool:
    """Whether to go on: whoever is at a terminal is asked before an update."""
    if yes or not there.status() or not app.asks():
        return True
    return click.confirm(f"Update stack {there.name}?", err=True)


def _view(
    release: Release,
    place: CodeBucket,
    there: Stack,
    changes: Iterable[Change],
    *,
    deployed: bool,
) -> DeploymentView:
    from slotq.output.json_views import DeploymentView, StackChangeView

    asked = {"templateURL": place.url(release.template_key), "stackName": there.name}
    query = urlencode({**asked, "param_CodeBucket": place.name})
    console = f"https://console.aws.amazon.com/cloudformation/home?region={place.region}"
    return DeploymentView(
        release=release.version,
        stack=there.name,
        region=place.region,
        bucket=place.name,
        deployed=deployed,
        changes=[
            StackChangeView(
                action=each.action, resource=each.resource, kind=each.kind, replaced=each.replaced
            )
            for each in changes
        ],
        outputs={**there.outputs()},
        quick_create=f"{console}#/stacks/create/review?{query}",
    )


def _said(view: DeploymentView, *, dry_run: bool) -> str:
    if dry_run:
        return "Nothing was changed."
    if not view.deployed:
        return f"Stack {view.stack} stays as it is."
    return "\n".join(
        (
            f"SlotQ {view.release} is deployed as stack {view.stack}: {view.outputs.get('ApiUrl')}",
            f"Use it:      export SLOTQ_QUEUE={view.stack} AWS_REGION={view.region}; slotq doctor",
            f"In the console, for colleagues: {view.quick_create}",
        )
    )


def _tell(line: str) -> None:
    """Progress, on stderr."""
    click.echo(line, err=True)


def _aws_errors() -> Any:
    from slotq.transport.aws_errors import aws_errors

    return aws_errors("AWS")
