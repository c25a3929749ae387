"""`slotq exec`: run a program whose SageMaker training calls go to the queue."""

from __future__ import annotations

import os

import click

from slotq.cli.app import App
from slotq.cli.machine.program import run
from slotq.cli.words import PRIORITY
from slotq.session.install import install
from slotq.session.relay import Relay, clients, pointed_at, served


@click.command("exec", context_settings={"ignore_unknown_options": True})
@click.option("--priority", type=PRIORITY, metavar="N", help="Priority of jobs that have none.")
@click.option(
    "--pools", metavar="NAMES", help="Pools of jobs that name none: comma separated, best first."
)
@click.option("--project", metavar="NAME", help="Project of jobs that name none.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
@click.pass_obj
def execute(
    app: App,
    priority: int | None,
    pools: str | None,
    project: str | None,
    command: tuple[str, ...],
) -> None:
    """Run COMMAND with its SageMaker training calls going through the queue.

    For the AWS CLI and for SDKs in any language. AWS_ENDPOINT_URL_SAGEMAKER leads COMMAND to an
    address of this machine, where the queue answers for its jobs and AWS for everything else.
    Without COMMAND it runs your shell. The exit code is the command's.
    """
    client = app.client()
    install(
        client.aws,
        queue=client,
        endpoint=client.config.endpoint,
        priority=client.config.priority if priority is None else priority,
        project=client.config.project if project is None else project,
        pools=pools,
        say=lambda line: click.echo(line, err=True),
    )
    region = client.config.signing_region() or client.aws.region_name
    with served(Relay(clients(client.aws, region))) as url:
        raise click.exceptions.Exit(run(command or (_shell(),), pointed_at(url)))


def _shell() -> str:
    return os.environ.get("SHELL") or "sh"
