"""`slotq shell`: open a shell in a running job."""

from __future__ import annotations

from urllib.parse import urlsplit

import click

from slotq.cli.app import App
from slotq.cli.exits import Exit
from slotq.cli.name_arguments import JobName
from slotq.client import QueueClient
from slotq.remote_shell import open_shell, running_job
from slotq_core.model.jobs import ACTIVE_STATES

_LOOPBACK = {"localhost", "127.0.0.1", "::1"}


@click.command
@click.argument("name", type=JobName(sorted(ACTIVE_STATES)))
@click.option(
    "--host",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="The instance: 1 is algo-1, 2 is algo-2 …",
)
@click.pass_obj
def shell(app: App, name: str, host: int) -> None:
    """Open a shell in the running job NAME.

    In SageMaker the job needs RemoteDebugConfig, and this machine the Session Manager plugin; the
    command says what is missing. In the emulator the shell starts in the folder of the job's
    process. The exit code is the shell's.
    """
    client = app.client()
    code = _local(client, name, host) if _emulated(client) else open_shell(client, name, host=host)
    raise click.exceptions.Exit(code if 0 <= code <= 255 else int(Exit.NO))


def _emulated(client: QueueClient) -> bool:
    return urlsplit(client.config.endpoint or "").hostname in _LOOPBACK


def _local(client: QueueClient, name: str, host: int) -> int:
    from slotq.local.job_shell import open_local_shell

    training_job = str(running_job(client, name).training_job)
    parts = urlsplit(client.config.endpoint or "")
    return open_local_shell(f"{parts.scheme}://{parts.netloc}", training_job, host=host)
