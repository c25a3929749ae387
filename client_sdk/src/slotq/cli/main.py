"""`slotq`: the group of commands. Each is imported when it is asked for, so that a short answer is
quick and a missing extra stops only the command that needs it."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import click

from slotq.cli.app import App, Failure, interrupted
from slotq.cli.encoding import forgive
from slotq.cli.exits import MEANINGS
from slotq.cli.names import nearest
from slotq.errors import SlotQError

COMMANDS = {
    "submit": "slotq.cli.submit:submit",
    "ls": "slotq.cli.ls:ls",
    "show": "slotq.cli.show:show",
    "why": "slotq.cli.why:why",
    "logs": "slotq.cli.logs:logs",
    "watch": "slotq.cli.watch:watch",
    "top": "slotq.cli.top.command:top",
    "shell": "slotq.cli.shell:shell",
    "exec": "slotq.cli.exec:execute",
    "cancel": "slotq.cli.cancel:cancel",
    "hold": "slotq.cli.hold:hold",
    "release": "slotq.cli.release:release",
    "priority": "slotq.cli.priority:priority",
    "move": "slotq.cli.move:move",
    "clone": "slotq.cli.clone:clone",
    "retry": "slotq.cli.retry:retry",
    "requeue": "slotq.cli.requeue:requeue",
    "history": "slotq.cli.history:history",
    "pools": "slotq.cli.pools:pools",
    "limits": "slotq.cli.limits:limits",
    "configure": "slotq.cli.configure:configure",
    "doctor": "slotq.cli.doctor:doctor",
    "backup": "slotq.cli.backup:backup",
    "cost": "slotq.cli.cost:cost",
    "simulate": "slotq.cli.simulate:simulate_command",
    "local": "slotq.cli.local:local",
    "demo": "slotq.cli.demo:demo",
    "completion": "slotq.cli.completion:completion",
    "version": "slotq.cli.version:version",
}
"""By command: where it is. The order is that of the help."""

_EPILOG = "\b\nExit codes:\n" + "\n".join(
    f"  {int(code):>3}  {meaning}" for code, meaning in MEANINGS.items()
)


class Commands(click.Group):
    """Loads commands by name and turns SlotQ's errors into messages and exit codes."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name, place in COMMANDS.items() if find_spec(place.split(":")[0])]

    def get_command(
        self,
        ctx: click.Context,
        cmd_name: str,
    ) -> click.Command | None:
        module, _, attribute = COMMANDS.get(cmd_name, "").partition(":")
        if not module or find_spec(module) is None:
            return None
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            hint = nearest(args[0], self.list_commands(ctx)) if args else ""
            message = " ".join(filter(None, (error.message, hint)))
            raise click.UsageError(message, ctx) from None

    def main(self, *args: Any, **kwargs: Any) -> Any:
        forgive()
        return super().main(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except SlotQError as error:
            raise Failure(error, as_json=ctx.ensure_object(App).json) from error
        except KeyboardInterrupt:
            raise interrupted() from None


@click.group(cls=Commands, epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--endpoint", metavar="URL", help="The queue's API; else SLOTQ_ENDPOINT, else config."
)
@click.option("--profile", metavar="NAME", help="A profile of the config; else SLOTQ_PROFILE.")
@click.option("--json", "as_json", is_flag=True, help="JSON instead of tables.")
@click.option("--no-color", is_flag=True, help="Plain text; so does NO_COLOR, and a pipe.")
@click.pass_context
def cli(
    ctx: click.Context,
    endpoint: str | None,
    *,
    profile: str | None,
    as_json: bool,
    no_color: bool,
) -> None:
    """A priority queue in front of SageMaker training.

    `slotq COMMAND --help` explains a command. Settings come from options, else SLOTQ_…
    variables, else ~/.config/slotq/config.toml.
    """
    app = ctx.ensure_object(App)
    app.endpoint = endpoint or app.endpoint
    app.profile = profile or app.profile
    app.json = as_json or app.json
    app.color = app.color and not no_color


def main() -> None:
    """The `slotq` program."""
    cli(prog_name="slotq")
