"""`slotq`: the group of commands. A command's module is imported only when the command is used:
start-up is fast, and a missing extra affects only the commands that need it.

The list of commands, in the help and in completion, is from `summaries.json`: the first sentence of
each command's help, by `make tables`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from slotq.cli.app import App, Failure, interrupted
from slotq.cli.encoding import forgive, open_closed
from slotq.cli.exits import MEANINGS, CannotUseFile
from slotq.cli.name_arguments import nearest
from slotq.errors import SlotQError
from slotq_core.wire.verbs import VERBS

SECTIONS: dict[str, dict[str, str]] = {
    "Submit": {
        "submit": "slotq.cli.verbs.submit:submit",
        "sweep": "slotq.cli.verbs.sweep:sweep",
        "gang": "slotq.cli.groups.gang:gang",
        "clone": "slotq.cli.verbs.resubmitting:clone",
        "retry": "slotq.cli.verbs.resubmitting:retry",
    },
    "Look": {
        "ls": "slotq.cli.views.ls:ls",
        "show": "slotq.cli.views.show_command:show",
        "why": "slotq.cli.views.show_command:why",
        "logs": "slotq.cli.views.logs_command:logs",
        "watch": "slotq.cli.views.watching:watch",
        "top": "slotq.cli.top.command:top",
        "ui": "slotq.cli.machine.ui_command:ui",
        "graph": "slotq.cli.views.graph:graph",
        "groups": "slotq.cli.views.ls:groups",
        "history": "slotq.cli.views.show_command:history",
        "nodes": "slotq.cli.queue.nodes_command:nodes",
        "timeline": "slotq.cli.queue.usage_command:timeline",
        "whatif": "slotq.cli.whatif.command:whatif",
    },
    "Change jobs": {
        **{verb.name: "slotq.cli.verbs.changes:CHANGES" for verb in VERBS},
        "shell": "slotq.cli.views.entering:shell",
    },
    "Shares and use": {
        "quota": "slotq.cli.queue.quota_command:quota",
        "limits": "slotq.cli.queue.limits_command:limits",
        "usage": "slotq.cli.queue.usage_command:usage",
        "cost": "slotq.cli.queue.cost_command:cost",
        "whoami": "slotq.cli.queue.limits_command:whoami",
    },
    "Operate": {
        "pools": "slotq.cli.queue.pools_command:pools",
        "reserve": "slotq.cli.queue.reservations_command:reserve",
        "reservations": "slotq.cli.queue.reservations_command:reservations",
        "projects": "slotq.cli.queue.projects_command:projects",
        "config": "slotq.cli.queue.config_command:config",
        "notify": "slotq.cli.queue.notify_command:notify",
        "backup": "slotq.cli.queue.backup:backup",
    },
    "This machine": {
        "configure": "slotq.cli.queue.configure:configure",
        "doctor": "slotq.cli.queue.doctor:doctor",
        "deploy": "slotq.cli.machine.deploy_command:deploy",
        "exec": "slotq.cli.machine.exec:execute",
        "completion": "slotq.cli.machine.completion:completion",
        "version": "slotq.cli.machine.completion:version",
    },
    "Try it": {
        "local": "slotq.cli.machine.local_command:local",
        "demo": "slotq.cli.machine.demo_command:demo",
        "simulate": "slotq.cli.machine.simulate_command:simulate_command",
    },
}
"""The modules of the commands, by the headings of the help; all in its order. A module has the
command itself, or several by name."""

COMMANDS = {name: place for section in SECTIONS.values() for name, place in section.items()}
"""The module of each command."""

SUMMARIES = Path(__file__).with_name("summaries.json")


@cache
def _summaries() -> Mapping[str, str]:
    found: Mapping[str, str] = json.loads(SUMMARIES.read_text())
    return found


def _short_help(name: str, room: int = 45) -> str:
    """What the command does, in at most `room` characters."""
    return click.Command(name, help=_summaries()[name]).get_short_help_str(room)


_EPILOG = "\b\nExit codes:\n" + "\n".join(
    f"  {int(code):>3}  {meaning}" for code, meaning in MEANINGS.items()
)


class Commands(click.Group):
    """Loads commands by name, and turns SlotQ's errors into messages and exit codes."""

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
        found: click.Command | Mapping[str, click.Command] = getattr(
            import_module(module), attribute
        )
        return found[cmd_name] if isinstance(found, Mapping) else found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            hint = nearest(args[0], self.list_commands(ctx)) if args else ""
            message = " ".join(filter(None, (error.message, hint)))
            raise click.UsageError(message, ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands under their headings, in one width."""
        there = self.list_commands(ctx)
        widest = max(map(len, there))
        room = formatter.width - widest - 6
        for head, section in SECTIONS.items():
            rows = [
                (name.ljust(widest), _short_help(name, room)) for name in section if name in there
            ]
            if rows:
                with formatter.section(head):
                    formatter.write_dl(rows)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The commands and options that begin so."""
        commands = [
            CompletionItem(name, help=_short_help(name))
            for name in self.list_commands(ctx)
            if name.startswith(incomplete)
        ]
        return commands + click.Command.shell_complete(self, ctx, incomplete)

    def main(self, *args: Any, **kwargs: Any) -> Any:
        open_closed()
        forgive()
        return super().main(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except SlotQError as error:
            raise Failure(error, as_json=ctx.ensure_object(App).json) from error
        except KeyboardInterrupt:
            raise interrupted() from None
        except OSError as error:
            # click ends quietly where the reader of a pipe is gone; a connection is no file.
            if isinstance(error, ConnectionError | TimeoutError):
                raise
            raise Failure(_file_error(error), as_json=ctx.ensure_object(App).json) from error


def _file_error(error: OSError) -> CannotUseFile:
    said = error.strerror or str(error)
    return CannotUseFile(f"{error.filename}: {said}" if error.filename else said)


@click.group(cls=Commands, epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--endpoint", metavar="URL", help="The queue's API.  [SLOTQ_ENDPOINT, or config]")
@click.option("--profile", metavar="NAME", help="A profile of the config.  [SLOTQ_PROFILE]")
@click.option("--json", "as_json", is_flag=True, help="JSON instead of tables.")
@click.option("--wide", is_flag=True, help="All columns of tables, on a narrow terminal too.")
@click.option("--no-color", is_flag=True, help="Plain text, as with NO_COLOR or in a pipe.")
@click.pass_context
def cli(
    ctx: click.Context,
    endpoint: str | None,
    *,
    profile: str | None,
    as_json: bool,
    wide: bool,
    no_color: bool,
) -> None:
    """A priority queue in front of SageMaker training.

    `slotq COMMAND --help` explains a command. Settings come from options, then SLOTQ_…
    variables, then ~/.config/slotq/config.toml.
    """
    app = ctx.ensure_object(App)
    app.endpoint = endpoint or app.endpoint
    app.profile = profile or app.profile
    app.json = as_json or app.json
    app.wide = wide or app.wide
    app.color = app.color and not no_color


def main() -> None:
    """The `slotq` program."""
    cli(prog_name="slotq")
