"""`slotq exec`: run a program whose SageMaker training calls go to the queue."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from slotq.cli.words import PRIORITY

if TYPE_CHECKING:
    from slotq.cli.app import App


@click.command("exec", context_settings={"ignore_unknown_options": True})
@click.option("--priority", type=PRIORITY, metavar="N", help="Priority of jobs that have none.")
@click.option(
    "--pools", metavar="NAMES", help="Pools of jobs that name none: comma separated, best first."
)
@click.option("--project", metavar="NAME", help="Project of jobs that name none.")
@click.option("--processing", is_flag=True, help="Queue processing jobs too.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
@click.pass_obj
def execute(
    app: App,
    priority: int | None,
    pools: str | None,
    project: str | None,
    command: tuple[str, ...],
    *,
    processing: bool,
) -> None:
    """Run COMMAND with its SageMaker training calls going through the queue.

    For the AWS CLI and for SDKs in any language. AWS_ENDPOINT_URL_SAGEMAKER leads COMMAND to an
    address of this machine, where the queue answers for its jobs and AWS for everything else.
    Without COMMAND it runs your shell. The exit code is the command's.
    """
    from slotq.session.install import install
    from slotq.session.relay import JsonRelay, clients, pointed_at, served

    client = app.client()
    install(
        client.aws,
        queue=client,
        endpoint=client.config.endpoint,
        priority=client.config.priority if priority is None else priority,
        project=client.config.project if project is None else project,
        pools=pools,
        processing=processing,
        say=lambda line: click.echo(line, err=True),
    )
    region = client.config.signing_region() or client.aws.region_name
    with served(JsonRelay(clients(client.aws, region))) as url:
        raise click.exceptions.Exit(run(command or (_shell(),), pointed_at(url)))


def _shell() -> str:
    return os.environ.get("SHELL") or "sh"


NOT_FOUND = 127
"""A shell's exit code for an unknown command."""


def run(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a command and return its exit code: 128 + the signal's number if a signal ended it."""
    if shutil.which(command[0], path=environment.get("PATH")) is None:
        click.echo(f"slotq: the program {command[0]} is not on the PATH", err=True)
        return NOT_FOUND
    with _interrupts_left_to_it():
        code = subprocess.run(  # noqa: S603 - the user's own command # nosec B603
            command, env=environment, check=False
        ).returncode
    return code if code >= 0 else 128 - code


@contextmanager
def _interrupts_left_to_it() -> Iterator[None]:
    """Ignore Ctrl-C here: the command receives it from the same terminal.

    Uses handlers that do nothing, because exec resets handlers; the command would inherit SIG_IGN.
    """
    names = [name for name in ("SIGINT", "SIGQUIT") if hasattr(signal, name)]
    kept = {n: signal.signal(n, lambda *_: None) for n in (getattr(signal, e) for e in names)}
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
