"""`slotq submit`: requests from files, or a command line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import click

from slotq.cli.app import App, json_option
from slotq.cli.dry_run import asked, show_dry_run
from slotq.cli.forwarding import forward_option
from slotq.cli.groups.job_folder import FileOrFolder, option_of, sites_option, submit_folder
from slotq.cli.name_arguments import Hints, JobNames, PoolNames, ProjectName
from slotq.cli.on_jobs import looked_at, submit_each
from slotq.cli.setting_options import job_setting_options
from slotq.cli.verbs.request_file import name_of, read_requests
from slotq.cli.verbs.sweep import check_array_usage, indexed, submit_array
from slotq.cli.verbs.with_shell import check_usage, enter_at_start, with_shell
from slotq.cli.views.watching import follow_job
from slotq.cli.words import PRIORITY, NamedValue, Pair, Seconds
from slotq.configuration.settings import Config, checked
from slotq.errors import CannotReach, InvalidRequest, NameTaken, NoSuchPool
from slotq.jobs.submission import jsonable, settings_tags, with_tags
from slotq.output.job_tables import submission
from slotq.packaging.archive import FolderListing, Pack, listed, pack
from slotq_core.model.jobs import Workload
from slotq_core.model.reasons import units
from slotq_core.spelling import unknown
from slotq_core.wire.resubmission import names_to_try
from slotq_core.wire.setting_tags import TAGS
from slotq_core.wire.training.processing_request import job_name, renamed

if TYPE_CHECKING:
    from slotq.client import QueueClient
    from slotq.remote_shell.ports import Forward
    from slotq.sweeps.members import ArrayRange
    from slotq_core.wire.views.jobs import JobView
    from slotq_core.wire.views.pools import PoolView

J = TypeVar("J", "JobView", "JobView | None")

_COMMAND = "slotq.command"
_SETTINGS = ("priority", "project", "pools", "demand", *TAGS, "after", "after_any")
"""Options that become tags."""
_OF_COMMANDS = (
    "instance_type", "image", "role", "output", "instance_count", "volume", "max_runtime",
    "inputs", "environment", "source",
)  # fmt: skip
"""Options that build a request, so they cannot be combined with a file."""


class Submit(click.Command):
    """Takes everything after `--` as the command line of the job."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            place = args.index("--")
            ctx.meta[_COMMAND] = args[place + 1 :]
            args = args[:place]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Submit the file, the command or the folder."""
        files, sites = ctx.params["files"], ctx.params.pop("sites")
        folder = next((file for file in files if isinstance(file, Path)), None)
        if folder is not None:
            if len(files) > 1:
                raise click.UsageError("give one JOB_FOLDER, and no files beside it")
            parameters = {**ctx.params, "file": folder, "command": ctx.meta.get(_COMMAND)}
            del parameters["files"]
            settings = {name: parameters.pop(name) for name in _SETTINGS}
            return submit_folder(
                ctx.ensure_object(App), parameters, sites=dict(sites), settings=settings
            )
        if sites:
            raise click.UsageError("--site is for a JOB_FOLDER, which holds a federated job")
        try:
            return super().invoke(ctx)
        except InvalidRequest as error:
            after = (ctx.params.get(name) or "" for name in ("after", "after_any"))
            names = [name.strip() for listed in after for name in listed.split(",")]
            if not any(names):
                raise
            app = ctx.ensure_object(App)
            raise app.fail(
                error, Hints(app.client()).of_others(error, filter(None, names))
            ) from error

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return ["[OPTIONS] FILE...", "| [OPTIONS] JOB_FOLDER", "| [OPTIONS] -- COMMAND..."]


def _setting(_: click.Context, param: click.Parameter, value: str | None) -> str | None:
    assert param.name is not None
    return value if value is None else str(checked(param.name, value, "argument"))


def _listed(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> str | None:
    return ",".join(values) if values else None  # Empty is refused: it may be an unset variable.


# click leaves text after a backspace as it is; a docstring cannot contain one.
_EXAMPLES = """\b
slotq submit request.json --priority 20
slotq submit requests/*.json --project vision
slotq submit --name first -- python train.py --epochs 3
slotq submit federated/ --site client1=pool-a"""


@click.command(cls=Submit, epilog=_EXAMPLES)
@click.argument("files", nargs=-1, type=FileOrFolder(), metavar="FILE...")
@click.option("--name", help="The job's name.  [the file's, or script and time]")
@click.option("--priority", type=PRIORITY, help="High first: a number, or a class.")
@click.option(
    "--project",
    type=ProjectName(),
    metavar="NAME",
    help="The project that the job belongs to.  [the config's, or your default]",
)
@click.option(
    "--pools",
    type=PoolNames(),
    help="Pools that the job may run in, comma separated, best first.",
)
@click.option(
    "--demand",
    type=NamedValue(),
    multiple=True,
    metavar="NAME=VALUE",
    help="What the job needs besides slots, such as gpus=8: of a resource or property.",
)
@job_setting_options
@click.option(
    "--interactive", "workload", flag_value=Workload.INTERACTIVE.value, help="--class interactive."
)
@click.option(
    "--after",
    multiple=True,
    callback=_listed,
    type=JobNames(None),
    metavar="JOBS",
    help="Jobs that must complete first, comma separated; may be given several times.",
)
@click.option(
    "--after-any",
    multiple=True,
    callback=_listed,
    type=JobNames(None),
    metavar="JOBS",
    help="Jobs that must end first, in whatever way.",
)
@click.option(
    "--array",
    metavar="RANGE",
    help="A job for each index, as Slurm writes them: 1-10, 1,3,7, 0-15:4; %N for N at once.",
)
@click.option(
    "--again", is_flag=True, help="If the name is taken, use the next free one: NAME-r2 …."
)
@click.option("--wait", is_flag=True, help="Follow the job to its end, as `slotq watch NAME` does.")
@click.option(
    "--shell",
    is_flag=True,
    help="Wait for the job's start, and open a shell in it (`slotq shell`).",
)
@forward_option("As --shell, but serve this port of the job at 127.0.0.1.")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Print the request, and whether the queue would take it; upload and submit nothing.",
)
@click.option(
    "--instance-type", callback=_setting, metavar="TYPE", help="-- Such as ml.p5.48xlarge."
)
@click.option("--instance-count", type=click.IntRange(1), metavar="N", help="-- Instances.  [1]")
@click.option("--image", callback=_setting, metavar="URI", help="-- The training image.")
@click.option("--role", callback=_setting, metavar="ARN", help="-- The execution role.")
@click.option(
    "--output", callback=_setting, metavar="S3URI", help="-- Where code, models and checkpoints go."
)
@click.option(
    "--input",
    "inputs",
    type=Pair(),
    multiple=True,
    metavar="NAME=S3URI",
    help="-- A data channel; may be given several times.",
)
@click.option(
    "--env",
    "environment",
    type=Pair(),
    multiple=True,
    metavar="NAME=VALUE",
    help="-- An environment variable; may be given several times.",
)
@sites_option
@click.option("--volume", type=click.IntRange(1), metavar="GB", help="-- Disk.  [30]")
@click.option(
    "--max-runtime", type=Seconds(1), help="-- The longest run: short jobs may start earlier.  [1d]"
)
@click.option(
    "--source",
    type=click.Path(path_type=Path, file_okay=False),
    help="-- The folder to pack, less what .slotqignore (or .gitignore) names.  [.]",
)
@json_option
@click.pass_context
def submit(
    ctx: click.Context,
    /,
    files: tuple[TextIO, ...],
    *,
    wait: bool,
    shell: bool,
    forwards: tuple[Forward, ...],
    dry_run: bool,
    again: bool,
    array: str | None,
    **parameters: Any,
) -> None:
    """Put a job into the queue, several, or an array of jobs.

    FILE is a CreateTrainingJob request (JSON or YAML; - for stdin), or a list of them: each of
    several is a job of its own. With a COMMAND, slotq packs the
    folder, and the job runs the command in it. Instance type, image, role and output come from the
    options marked --, else from the config. A JOB_FOLDER is a federated job (docs/federated.md).
    """
    from slotq.jobs.sagemaker_model import check

    app = ctx.ensure_object(App)
    command = ctx.meta.get(_COMMAND)
    file = files[0] if files else None
    _check_usage(file, command, parameters)
    entered = shell or bool(forwards)
    if entered:
        check_usage(app, file, opens_shell=shell, forwards=forwards, wait=wait)
    requests, many = read_requests(files)
    if many:
        own = {"name": parameters["name"], "wait": wait, "shell": shell, "forward": forwards}
        _check_for_one({**own, "array": array, "again": again})
        _submit_each(app, requests, parameters, dry_run=dry_run)
        return
    indices = None if array is None else _range(array)
    if indices is not None:
        check_array_usage(wait=wait, again=again, entered=entered)
        if command:
            parameters["name"] = parameters["name"] or _name_of(command, app)
            command = indexed(command)
    client = app.client()
    request, upload_code = _prepared(app, client, requests, command, parameters)
    if entered:
        request = with_shell(client, request, dry_run=dry_run)
    check(jsonable(request))
    if indices is not None:
        submit_array(app, client, request, indices, upload_code, dry_run=dry_run)
        return
    job = _submit(app, client, request, upload_code, again=again, dry_run=dry_run)
    if job is None:
        return
    if entered:
        enter_at_start(app, client, job.name, forwards)
    if wait:
        follow_job(app, client, job.name, submitted=job)
    job = looked_at(client, job)
    app.answer(job, submission(job))


def _name_of(command: Sequence[str], app: App) -> str:
    from slotq.packaging.command_job import job_name

    return job_name(command, app.now())


def _range(array: str) -> ArrayRange:
    from slotq.sweeps.members import read_range

    return read_range(array)


def _check_for_one(options: Mapping[str, Any]) -> None:
    """Raises UsageError for an option that is for one job, where several are submitted."""
    for option, value in options.items():
        if value:
            raise click.UsageError(f"--{option} is for one job; leave it out with several")


def _submit_each(
    app: App, requests: list[dict[str, Any]], parameters: dict[str, Any], *, dry_run: bool
) -> None:
    client, settings = app.client(), _settings(parameters)
    tagged = [_tagged(client, request, settings) for request in requests]
    submit_each(app, client, tagged, submission, dry_run=dry_run)


def _settings(parameters: dict[str, Any]) -> dict[str, Any]:
    """The options that become tags, taken from the parameters."""
    settings = {name: parameters.pop(name) for name in _SETTINGS}
    return {**settings, "demand": dict(settings["demand"])}


def _tagged(
    client: QueueClient, request: Mapping[str, Any], settings: Mapping[str, Any]
) -> dict[str, Any]:
    """The request with the options, and the configured settings that it lacks, as tags."""
    config = client.config
    request = with_tags(request, settings_tags(**settings), override=True)
    return with_tags(request, settings_tags(priority=config.priority, project=config.project))


def _prepared(
    app: App,
    client: QueueClient,
    requests: list[dict[str, Any]],
    command: list[str] | None,
    parameters: dict[str, Any],
) -> tuple[dict[str, Any], Callable[[], None] | None]:
    """The request with its settings as tags, and for a command a function that uploads the code."""
    settings = _settings(parameters)
    if requests:
        (request,), name = requests, parameters["name"]
        named = request if name is None else _named(request, name)
        return _tagged(client, named, settings), None
    if settings["pools"] is None:
        settings["pools"] = client.config.pool
    own = {"pools": settings["pools"], "gpus": settings["gpus"]}
    parameters = {**parameters, "command": command, **own}
    request, upload_code = _from_command(app, client, **parameters)
    return _tagged(client, request, settings), upload_code


def _check_usage(
    file: TextIO | None, command: list[str] | None, options: Mapping[str, Any]
) -> None:
    if file is None and not command:
        raise click.UsageError(
            "give a file with a CreateTrainingJob request, or a command line after --:\n"
            "  slotq submit request.json\n  slotq submit -- python train.py --epochs 3"
        )
    if file is None:
        return
    if command is not None:
        raise click.UsageError("give a file or a command line after --, not both")
    for name in _OF_COMMANDS:
        if options.get(name):
            option = option_of(name)
            raise click.UsageError(
                f"--{option} is for a command line after --; set it in {name_of(file)} instead"
            )


def _submit(
    app: App,
    client: QueueClient,
    request: dict[str, Any],
    upload_code: Callable[[], None] | None,
    *,
    again: bool,
    dry_run: bool,
) -> JobView | None:
    """Submit the request; if it has code, first submit it dry, before the upload. Returns None for
    a dry run, which prints instead."""
    from slotq.jobs.foreign_names import ForeignNames
    from slotq.packaging.command_job import under

    names = ForeignNames(client.jobs, lambda _: app.aws(client, "sagemaker", quick=True))
    named = _named if upload_code is None else under
    would: JobView | None = None

    def ask(request: dict[str, Any]) -> JobView | None:
        names.check(request.get("TrainingJobName"))
        return asked(lambda: client.submit(request, dry_run=True))

    def put(request: dict[str, Any]) -> JobView:
        if would is None:
            names.check(request.get("TrainingJobName"))
        return client.submit(request)

    if dry_run or upload_code is not None:
        request, would = _first_free(request, ask, again=again, named=named)
    if dry_run:
        show_dry_run(app, request, would)
        return None
    if upload_code is not None:
        upload_code()
    return _first_free(request, put, again=again, named=named)[1]


def _first_free(
    request: dict[str, Any],
    put: Callable[[dict[str, Any]], J],
    *,
    again: bool,
    named: Callable[[dict[str, Any], str], dict[str, Any]],
) -> tuple[dict[str, Any], J]:
    """Submit the request with `put`. If the name is taken and `again` is set, repeat with the next
    free name, by `named`. Returns the accepted request and the result of `put`."""
    try:
        return request, put(request)
    except NameTaken:
        if not again:
            raise
    for name in names_to_try(job_name(request)):
        renamed = named(request, name)
        try:
            return renamed, put(renamed)
        except NameTaken:
            continue
    raise NameTaken(f"the names up to {name} are taken; choose one with --name")


def _named(request: dict[str, Any], name: str) -> dict[str, Any]:
    return renamed(request, name)


def _from_command(
    app: App,
    client: QueueClient,
    *,
    name: str | None,
    command: list[str],
    pools: str | None,
    source: Path | None,
    inputs: tuple[tuple[str, str], ...],
    environment: tuple[tuple[str, str], ...],
    **options: Any,
) -> tuple[dict[str, Any], Callable[[], None]]:
    """The request that runs the command, and a function that uploads the code."""
    from slotq.packaging import training_file
    from slotq.packaging.command_job import CommandJob, code_uri, request_of

    job = CommandJob(
        command=command,
        name=name,
        inputs=dict(inputs),
        environment=dict(environment),
        **{key: value for key, value in options.items() if value is not None},
    )
    config: Config = client.config
    folder = source or Path()
    found = listed(folder)
    packed = pack(folder, files=found.files, beside=training_file.beside(found.files))
    code = code_uri(job, packed, config)
    named = job.image or config.image, job.role or config.role
    known = bool(job.instance_type or config.instance_type) and (not job.gpus or all(named))
    kinds = [] if known else _pools(client, pools)
    request = request_of(job, config, code=code, pools=kinds, now=app.now())
    for line in _left_at_home(folder, found, command):
        app.warn(line)
    return request, lambda: _upload(app, client, code, packed, command)


def _left_at_home(folder: Path, found: FolderListing, command: list[str]) -> Iterator[str]:
    """Sentences about files that the job may need and that are not packed."""
    for name in found.lost:
        yield f"{name} is not packed: it is a link to nothing, or no file"
    for word in dict.fromkeys(
        part for argument in command for part in (argument, argument.split("=")[-1])
    ):
        if found.lacks(folder, word):
            yield (
                f"the command names {word}, which is not packed: {found.ignored_by} leaves it out. "
                "If the job needs it, write a .slotqignore, which counts in place of .gitignore"
            )


def _upload(app: App, client: QueueClient, uri: str, packed: Pack, command: list[str]) -> None:
    """Upload the code and report its size. Raises CannotReach."""
    from boto3.exceptions import Boto3Error
    from botocore.exceptions import BotoCoreError, ClientError

    from slotq.packaging.command_job import upload

    try:
        upload(app.aws(client, "s3"), uri, packed, command)
    except (Boto3Error, BotoCoreError, ClientError) as error:
        raise CannotReach(
            f"the code cannot be uploaded to {uri}: {error}. Check that the bucket exists and "
            "that you have s3:PutObject on it."
        ) from None
    if not app.json:
        size = f"{len(packed.content) / 1000:,.0f} kB"
        click.echo(f"packed {units(packed.files, 'files')} ({size}) into {uri}", err=True)


def _pools(client: QueueClient, names: str | None) -> list[PoolView]:
    """The pools that determine the instance type: the first of `names`, else all."""
    there = client.pools()
    if names is None:
        return there
    known = [pool.name for pool in there]
    named = [name.strip() for name in names.split(",")]
    if missing := next((name for name in named if name not in known), None):
        raise NoSuchPool(unknown("pool", missing, known), field="pools")
    return [pool for pool in there if pool.name == named[0]]
