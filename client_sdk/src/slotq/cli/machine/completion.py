"""`slotq completion`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")
_VARIABLE = "_SLOTQ_COMPLETE"


_PLACES = """\b
bash, in ~/.bashrc:    eval "$(slotq completion bash)"
zsh, in ~/.zshrc:      eval "$(slotq completion zsh)"
fish:                  slotq completion fish > ~/.config/fish/completions/slotq.fish"""


@click.command(epilog=_PLACES)
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a script that makes SHELL complete commands, options, and names of jobs and pools.

    Names come from the queue, if it answers within 1.5 seconds.
    """
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(ctx.find_root().command, {}, "slotq", _VARIABLE).source())
