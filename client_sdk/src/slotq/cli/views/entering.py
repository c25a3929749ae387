"""`slotq shell`: a shell in a running job or its ports, in SageMaker or in the emulator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from slotq.cli.exits import ExitCode
from slotq.cli.forwarding import forward_option
from slotq.cli.name_arguments import JobName
from slotq.cli.on_jobs import named
from slotq.jobs.follow import status_line
from slotq.output.plain_table import LIVING
from slotq.remote_shell.ports import Forward, forward_line, listening
from slotq_core.model.jobs import TERMINAL_STATES, JobState

if TYPE_CHECKING:
    from slotq.cli.app import App
    from slotq.client import QueueClient
    from slotq_core.wire.views.jobs import JobView

_LOOPBACK = {"localhost", "127.0.0.1", "::1"}
_HIGHEST = 255
"""The highest exit code."""
_AFTERMATH = 10.0
"""Seconds in which the queue learns of the end of an attempt."""


@dataclass(frozen=True, kw_only=True)
class EnterTarget:
    """What to open in which job."""

    name: str
    host: int = 1
    forwards: Sequence[Forward] = ()
    """The ports to forward; without any, a shell is opened."""

    @property
    def command(self) -> str:
        """The command that opens the same again."""
        words = ["slotq shell", self.name, *(["--host", str(self.host)] if self.host > 1 else [])]
        for forward in self.forwards:
            local = "" if forward.local is None else f":{forward.local}"
            words += ["--forward", f"{forward.port}{local}"]
        return " ".join([*words, "--wait"])


def check_machine(client: QueueClient) -> None:
    """Check that this machine can open a shell in a job of the queue. Raises NoShell."""
    from slotq.remote_shell.ssm_session import Container

    if not _emulated(client):
        Container(client).check()


def enter(app: App, client: QueueClient, entry: EnterTarget, *, wait: bool) -> int:
    """Open a shell in the job, or forward its ports, until the session ends; returns an exit code.

    With `wait`, waits for the job's start. Raises NoShell with what is missing, and what
    `queue.jobs.view` raises.
    """
    from slotq.remote_shell.at_start import AtStart
    from slotq.remote_shell.ssm_session import running_job

    ports = partial(_ports, app, client, entry)
    entered = ports if entry.forwards else partial(_shell, client, entry)
    if not wait:
        return entered(running_job(client, entry.name))
    try:
        with named(app, client, entry.name):
            return AtStart(entered, say=_aside, clock=app.clock, sleep=app.sleep).follow(
                lambda: client.jobs.view(entry.name)
            )
    except KeyboardInterrupt:
        _aside(
            f"\n{entry.name} stays in the queue: `{entry.command}` comes back to it, "
            f"`slotq cancel {entry.name}` cancels it"
        )
        raise


def _aside(line: str) -> None:
    click.echo(line, err=True)


def _emulated(client: QueueClient) -> bool:
    return urlsplit(client.config.endpoint or "").hostname in _LOOPBACK


def _shell(client: QueueClient, entry: EnterTarget, job: JobView) -> int:
    from slotq.remote_shell.ssm_session import Container

    if _emulated(client):
        code = _in_emulator(client, entry, job)
    else:
        code = Container(client, host=entry.host).shell(job)
    return code if 0 <= code <= _HIGHEST else int(ExitCode.NO)


def _ports(app: App, client: QueueClient, entry: EnterTarget, job: JobView) -> int:
    """Forward ports until the attempt or the session ends, and say what became of the job."""
    from slotq.remote_shell.ssm_session import Container

    if _emulated(client):
        _in_emulator(client, entry, job)
    else:
        Container(client, host=entry.host).forward(job, entry.forwards, click.echo)
    now = _afterwards(app, client, job)
    goes_on = now.state not in TERMINAL_STATES
    back = f"; `{entry.command}` comes back to it" if goes_on else ""
    _aside(f"{now.name}: forwarding has ended; the job is {status_line(now)}{back}")
    return int(ExitCode.OK if now.state == JobState.COMPLETED else ExitCode.NO)


def _afterwards(app: App, client: QueueClient, before: JobView) -> JobView:
    """The job after its attempt, once the queue has learned of the end. If that takes longer than
    _AFTERMATH, the session ended by itself: returns the job unchanged."""
    from slotq.remote_shell.ssm_session import runs

    until = app.clock() + _AFTERMATH
    while True:
        job = client.jobs.view(before.name)
        same = runs(job) and job.training_job == before.training_job
        if (not same and job.state != JobState.STOPPING) or app.clock() >= until:
            return job
        app.sleep(0.5)


def _in_emulator(client: QueueClient, entry: EnterTarget, job: JobView) -> int:
    """Enter the job's process on this machine. Raises NotYet."""
    from slotq.local.job_processes import NoProcess, open_local_shell
    from slotq.remote_shell.ssm_session import NotYet

    parts = urlsplit(client.config.endpoint or "")
    url = f"{parts.scheme}://{parts.netloc}"
    try:
        if not entry.forwards:
            return open_local_shell(url, str(job.training_job), host=entry.host)
        _forward_locally(url, entry, str(job.training_job))
    except NoProcess as error:
        raise NotYet(str(error)) from None
    return int(ExitCode.OK)


def _forward_locally(url: str, entry: EnterTarget, training_job: str) -> None:
    from slotq.local.job_processes import Tunnel, address_of, carry, find, run_at

    run = run_at(url)
    process = find(run, training_job, entry.host)
    with listening(entry.forwards, shared=True) as sockets:
        tunnels = [
            Tunnel(
                listener=listener,
                port=forward.port,
                address=partial(address_of, run, training_job, entry.host, forward.port),
            )
            for listener, forward in zip(sockets, entry.forwards, strict=True)
        ]
        for tunnel in tunnels:
            click.echo(forward_line(entry.name, tunnel.port, tunnel.listener.getsockname()[1]))
        carry(tunnels, pid=process.pid, say=_aside)


# click leaves text after a backspace as it is; a docstring cannot contain one.
_EXAMPLES = """\b
slotq shell lab --wait
slotq shell lab --forward 8888
slotq shell lab --forward 8888:9999 --forward 6006"""


@click.command(epilog=_EXAMPLES)
@click.argument("name", type=JobName(LIVING))
@forward_option("Serve a port of the job at 127.0.0.1 instead; may be given several times.")
@click.option("--wait", is_flag=True, help="If the job does not run yet, wait until it does.")
@click.option(
    "--host",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="The instance: 1 is algo-1, 2 is algo-2 …",
)
@click.pass_obj
def shell(app: App, /, name: str, *, forwards: tuple[Forward, ...], wait: bool, host: int) -> None:
    """Open a shell in the running job NAME, or forward its ports to this machine.

    In SageMaker the job needs RemoteDebugConfig, and this machine the Session Manager plugin; the
    command says what is missing. In the emulator the shell starts in the folder of the job's
    process. The exit code is the shell's. With --forward it says whether the job completed; Ctrl-C
    ends the forwarding, and the job goes on.
    """
    entry = EnterTarget(name=name, host=host, forwards=forwards)
    raise click.exceptions.Exit(enter(app, app.client(), entry, wait=wait))
