"""`slotq completion` and `slotq version`: this program itself."""

from __future__ import annotations

import click

from slotq.cli.app import App, json_option
from slotq.version import __version__
from slotq_core.wire import VERSION

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
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(ctx.find_root().command, {}, "slotq", _VARIABLE).source())


@click.command
@json_option
@click.pass_obj
def version(app: App) -> None:
    """Print the versions of this program and of its JSON."""
    if app.json:
        from slotq.output.json_views import VersionView

        click.echo(VersionView(slotq=__version__, wire=VERSION).model_dump_json())
    else:
        click.echo(f"slotq {__version__} (wire version {VERSION})")
