"""`slotq local`: the whole system on this machine, without an AWS account."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from slotq.cli.machine.exec import run
from slotq.cli.words import Seconds
from slotq_core.wire.nodes.documents import MOST_GPUS
from slotq_core.wire.pool_definition import LONGEST

if TYPE_CHECKING:
    from slotq.local.emulator import Options
    from slotq.local.state import Running
    from slotq.local.training.knobs import Knobs
    from slotq.local.training.training_plans import TrainingPlan


@click.group
def local() -> None:
    """Run the emulator: the queue, S3, and a SageMaker that runs jobs as processes.

    Jobs, buckets and the queue survive a restart.
    """


@local.command
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=4777,
    show_default=True,
    help="Port to listen on; 0: any free port.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--name",
    "names",
    multiple=True,
    metavar="NAME[:PORT]",
    help="Another host name that clients use, e.g. host.docker.internal; may be given several "
    "times. Requests to any other name are refused.",
)
@click.option(
    "--pool",
    "pools",
    multiple=True,
    metavar="NAME=SLOTS[@TYPE]",
    help="A pool; may be given several times. Add ;reserve_after=TIME or "
    ";min_runtime=TIME. TYPE defaults to ml.m5.large.  [default: main=2]",
)
@click.option(
    "--detach", is_flag=True, help="Run in the background; return when the emulator answers."
)
@click.option(
    "--until-eof",
    is_flag=True,
    help="End also when standard input ends, for a program that runs the emulator through a pipe.",
)
@click.option("--fresh", is_flag=True, help="Start afresh: discard jobs, buckets and the queue.")
@click.option(
    "--tick", type=Seconds(whole=False), default=60.0, show_default=True, help="Time between ticks."
)
@click.option(
    "--grace",
    type=Seconds(whole=False),
    default=120.0,
    show_default=True,
    help="Time between SIGTERM and SIGKILL when a job is stopped.",
)
@click.option(
    "--knob",
    "knobs",
    multiple=True,
    metavar="NAME=VALUE",
    help="Simulate a fault or a delay, e.g. refuse_creates=1, start_seconds=5, lose_events=2.",
)
@click.option(
    "--plans",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The account's training plans, in YAML.",
)
@click.option(
    "--isolation/--no-isolation",
    default=None,
    help="Give each process its own /opt/ml (default: if this machine allows it).",
)
@click.option(
    "--pass-sigterm",
    is_flag=True,
    help="Pass SIGTERM on to the scripts of stopped jobs. SageMaker's framework containers do not.",
)
@click.option(
    "--python",
    metavar="PATH",
    help="The Python that runs scripts; with sagemaker-training installed there, SageMaker's own "
    "script mode is used.  [default: this one]",
)
@click.option(
    "--gpus",
    type=click.IntRange(1, MOST_GPUS),
    metavar="N",
    help="GPUs that each node of the queue pretends to have.  [default: this machine's own; on a "
    "machine without, as many as the instance type has, pretended]",
)
@click.option("--region", default="us-east-1", show_default=True)
def start(
    *,
    port: int,
    host: str,
    names: tuple[str, ...],
    pools: tuple[str, ...],
    detach: bool,
    until_eof: bool,
    fresh: bool,
    tick: float,
    grace: float,
    knobs: tuple[str, ...],
    plans: Path | None,
    isolation: bool | None,
    pass_sigterm: bool,
    python: str | None,
    gpus: int | None,
    region: str,
) -> None:
    """Start the emulator."""
    from slotq.installation import needs_extra

    if detach and until_eof:
        raise click.UsageError("--until-eof has no meaning with --detach: leave one of them out")
    with needs_extra("local", command="slotq local start"):
        from slotq.local import serve, state
        from slotq.local.emulator import Options

    options = Options(
        pools=_pools(pools),
        work=state.folder(),
        port=port,
        host=host,
        names=names,
        fresh=fresh,
        region=_region(region),
        tick_seconds=_positive("--tick", tick),
        isolated=isolation,
        passes_sigterm=pass_sigterm,
        python=python,
        gpus=gpus,
        knobs=_knobs([f"grace_seconds={grace}", *knobs]),
        plans=() if plans is None else _plans(plans),
    )
    if detach:
        _say_ready(serve.detach(options), log=str(state.log_file()))
    else:
        _serve(options, until_eof=until_eof)


def _serve(options: Options, *, until_eof: bool) -> None:
    from slotq.local.serve import serve
    from slotq.local.state import GOES_ON

    serve(options, ready=_say_ready, until_eof=until_eof)
    click.echo(f"The emulator has ended. {GOES_ON}")


def _pools(pools: tuple[str, ...]) -> str:
    from slotq_core.adapters.deployment_settings import LOCAL_INSTANCE_TYPE, parse_pools, pools_text
    from slotq_core.errors import InvalidRequest, Misconfigured
    from slotq_core.wire.pool_definition import check_declared

    text = ",".join(pools) or "main=2"
    try:
        found = parse_pools(text, default_type=LOCAL_INSTANCE_TYPE)
        check_declared((), found)
        return pools_text(found)
    except (InvalidRequest, Misconfigured) as error:
        raise click.BadParameter(str(error), param_hint="--pool") from None


def _knobs(texts: Iterable[str]) -> Knobs:
    from slotq.local.training.knobs import Knobs as Made

    knobs = Made()
    try:
        for text in texts:
            name, equals, value = text.partition("=")
            if not equals:
                raise ValueError(f"'{text}' is not NAME=VALUE")
            knobs.turn({name.strip(): value.strip()})
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--knob") from None
    return knobs


def _plans(file: Path) -> list[TrainingPlan]:
    from slotq.document.yaml_file import Document
    from slotq.local.training.plan_documents import read_plans
    from slotq_core.adapters.deployment_settings import SystemClock

    try:
        return read_plans(Document(file).data, now=SystemClock().now())
    except ValueError as error:
        raise click.BadParameter(f"{file}: {error}", param_hint="--plans") from None


def _region(name: str) -> str:
    from slotq.local.endpoint import session_of

    known = session_of(region_name=name).get_available_regions("sagemaker")
    if name not in known:
        raise click.BadParameter(
            f"there is no region '{name}'; the regions are {', '.join(known)}",
            param_hint="--region",
        )
    return name


def _positive(option: str, seconds: float) -> float:
    if not 0 < seconds <= LONGEST:  # Also true for NaN.
        raise click.BadParameter(
            f"must be more than 0 seconds and at most {LONGEST}, not {seconds:g}", param_hint=option
        )
    return seconds


def _say_ready(running: Running, log: str = "") -> None:
    click.echo(f"The emulator answers at {running.url}; the queue at {running.endpoint.queue}.")
    click.echo('To use it:  eval "$(slotq local env)"')
    click.echo("Then:       slotq ls;  estimator.fit() through slotq's session;  slotq local stop")
    if log:
        click.echo(f"Its log:    {log}")


@local.command
def stop() -> None:
    """End the emulator and every process of its jobs."""
    from slotq.local import state

    click.echo(state.stop())


@local.command
@click.option("--json", "as_json", is_flag=True, help="As a JSON object.")
def env(*, as_json: bool) -> None:
    """Print the settings that lead SDKs and slotq to the emulator: eval "$(slotq local env)"."""
    from slotq.local import state

    variables = state.variables(state.running())
    if as_json:
        click.echo(json.dumps(variables, indent=2))
        return
    click.echo(f"unset {' '.join(state.UNSET)}")
    for name, value in variables.items():
        click.echo(f"export {name}={shlex.quote(value)}")


@local.command("as", context_settings={"ignore_unknown_options": True})
@click.argument("name")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND...")
def act_as(*, name: str, command: tuple[str, ...]) -> None:
    """Run COMMAND on the emulator as another person: with the role NAME assumed.

    COMMAND gets the settings of `slotq local env` and the role's credentials. NAME is a role's name
    or ARN; the role need not exist. The ARN of a session, as `slotq whoami` shows it, names the
    session too. The exit code is the command's.
    """
    if not command:
        raise click.UsageError(
            f"say what to run: slotq local as {shlex.quote(name)} -- slotq whoami"
        )
    from slotq.local import acting, state

    running = state.running()
    own = {key: value for key, value in os.environ.items() if key not in state.UNSET}
    person = acting.variables(running.endpoint, name)
    raise click.exceptions.Exit(run(command, own | state.variables(running) | person))


@local.command("sam")
@click.option(
    "--build",
    type=click.Path(file_okay=False, path_type=Path),
    default=".aws-sam/build",
    show_default=True,
    help="What `sam build` has built.",
)
@click.option(
    "--host",
    metavar="ADDRESS",
    help="This machine's address in containers.  [default: that of Docker's own network]",
)
def sam(*, build: Path, host: str | None) -> None:
    """Write what `sam local` needs to run the built functions against the running emulator.

    Requests need no signature there: the caller is SLOTQ_LOCAL_CALLER in the file of variables.
    """
    from slotq.installation import needs_extra

    with needs_extra("local", command="slotq local sam"):
        from slotq.local import sam_local, state

    written = sam_local.write(
        state.running(), build=build, host=host or sam_local.host_for_containers()
    )
    click.echo(f"Wrote {written.template} and {written.values}. To use them:")
    click.echo('  eval "$(slotq local env)"')
    click.echo(f"  export SAM_OPTIONS={shlex.quote(shlex.join(written.options()))}")
    click.echo("  sam local invoke Door --event events/add-job.json $SAM_OPTIONS")
    click.echo("  sam local start-api --warm-containers LAZY $SAM_OPTIONS")
    click.echo("  SLOTQ_ENDPOINT=http://127.0.0.1:3000 slotq ls")
