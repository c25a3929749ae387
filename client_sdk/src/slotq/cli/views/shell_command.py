"""`slotq shell`: open a shell in a running job, or forward its ports."""

from __future__ import annotations

import click

from slotq.cli.app import App
from slotq.cli.forward_option import forward_option
from slotq.cli.name_arguments import JobName
from slotq.cli.views.entering import Entry, enter
from slotq.output.plain_table import LIVING
from slotq.remote_shell.ports import Forward

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
    entry = Entry(name=name, host=host, forwards=forwards)
    raise click.exceptions.Exit(enter(app, app.client(), entry, wait=wait))
