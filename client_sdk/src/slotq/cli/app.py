"""What all commands share: the global options, the client, the console, answers and errors."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click

from slotq.cli.encoding import as_json
from slotq.cli.exits import ExitCode, exit_of
from slotq.errors import (
    NameTaken,
    NoSuchJob,
    PriorityTooHigh,
    Refused,
    SlotQError,
    TooLate,
    TooManyWaiting,
)

if TYPE_CHECKING:
    from pydantic import BaseModel
    from rich.console import Console, RenderableType

    from slotq.client import QueueClient
    from slotq.configuration.settings import Config
    from slotq.transport.network import Network
    from slotq_core.wire.base import ErrorView

Command = TypeVar("Command", bound=Callable[..., Any])


class Aws(Protocol):
    """Makes boto3's client for a service."""

    def __call__(self, queue: QueueClient, service: str, *, quick: bool = False) -> Any:
        """`quick`: for optional calls. The client tries once, for seconds."""


def _aws(queue: QueueClient, service: str, *, quick: bool = False) -> Any:
    from botocore.exceptions import BotoCoreError

    from slotq.jobs.foreign_names import QUICK
    from slotq.transport.aws_session import wrong_settings

    try:
        return queue.aws.client(
            service,
            region_name=queue.config.signing_region() or queue.aws.region_name,
            config=QUICK if quick else None,
        )
    except (BotoCoreError, ValueError) as error:
        raise wrong_settings(error) from None


@dataclass
class App:
    """The state of one invocation of `slotq`."""

    endpoint: str | None = None
    profile: str | None = None
    json: bool = False
    color: bool = True
    wide: bool = False
    """Whether tables keep all columns on a narrow terminal."""
    connect: Callable[[str | None], QueueClient] | None = None
    """Makes the client; None: `QueueClient`."""
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    aws: Aws = field(default=_aws)
    """Returns boto3's client for a service, in the queue's region. Raises NotConfigured."""
    asks: Callable[[], bool] = lambda: sys.stdin.isatty() and sys.stderr.isatty()
    """Whether a user is present to answer questions."""
    network: Network | None = None
    """Resolves names and opens connections; None: this machine's network."""

    def client(self) -> QueueClient:
        """A client of the queue at the configured endpoint. Raises NotConfigured."""
        if self.connect is not None:
            return self.connect(self.endpoint)
        from slotq.client import QueueClient

        return QueueClient(self.endpoint, profile=self.profile)

    def config(self) -> Config:
        """The settings, without a client. Raises NotConfigured."""
        from slotq.configuration.settings import load

        return load({"endpoint": self.endpoint, "profile": self.profile})

    def console(self, *, stderr: bool = False) -> Console:
        """A console: plain if it is no terminal, if NO_COLOR is set, or with --no-color."""
        from slotq.output.fitting_table import safe_console

        terminal = (sys.stderr if stderr else sys.stdout).isatty()
        plain = not self.color or "NO_COLOR" in os.environ or not terminal
        return safe_console(plain=plain, terminal=terminal, wide=self.wide, stderr=stderr)

    def answer(self, view: BaseModel, shown: RenderableType) -> None:
        """Print `view` as JSON for programs, or `shown` for people."""
        if self.json:
            click.echo(as_json(view.model_dump_json(indent=2)))
        else:
            self.console().print(shown)

    def line(self, view: BaseModel, text: str) -> None:
        """Print one answer of a stream: as one line of JSON, or `text`."""
        click.echo(as_json(view.model_dump_json()) if self.json else text)

    def warn(self, line: str) -> None:
        """Print a warning on stderr, in front of JSON too."""
        click.echo(f"warning: {line}", err=True)

    def fail(self, error: SlotQError, hint: str = "") -> Failure:
        """The error in the form that click shows, with a hint on what to do next."""
        return Failure(error, as_json=self.json, hint=hint)


class Failure(click.ClickException):
    """An error of SlotQ in the form that click shows: on stderr, with an exit code of `exits`."""

    def __init__(self, error: SlotQError, *, as_json: bool, hint: str = "") -> None:
        super().__init__(str(error))
        self.error = error
        self.as_json = as_json
        self.hint = " ".join(filter(None, (hint, _next_step(error))))

    @property
    def exit_code(self) -> int:  # type: ignore[override]
        return int(exit_of(self.error))

    def show(self, file: Any = None) -> None:
        if self.as_json:
            text = as_json(_error_view(self.error).model_dump_json())
        else:
            lead = "too late: " if isinstance(self.error, TooLate) else ""
            text = "\n".join(filter(None, (f"slotq: {lead}{self.message}", self.hint)))
        click.echo(text, err=True, file=file)


def _switch(name: str, text: str) -> Callable[[Command], Command]:
    """The option `--NAME`, which sets that field of App, for users who write a global option after
    the command's name."""

    def switch_on(ctx: click.Context, _: click.Parameter, value: bool) -> None:
        if value:
            setattr(ctx.ensure_object(App), name, True)

    return click.option(
        f"--{name}", is_flag=True, expose_value=False, callback=switch_on, help=text
    )


json_option = _switch("json", "JSON instead of a table (docs/cli-output.schema.json).")
"""`--json`."""
wide_option = _switch("wide", "All columns, however narrow the terminal is.")
"""`--wide`, for a command that shows a table."""

prices_option = click.option(
    "--prices",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Your prices of instances.  [SLOTQ_PRICES, or config; else public prices]",
)


projects_option = click.option(
    "--project",
    "projects",
    multiple=True,
    metavar="NAME",
    help="Only jobs of this project; may be given several times.",
)

revision_option = click.option(
    "--revision",
    type=click.IntRange(min=0),
    help="Change only if the configuration still has this revision (`--json` shows it).",
)


def interrupted() -> click.exceptions.Exit:
    return click.exceptions.Exit(int(ExitCode.INTERRUPTED))


def compact(view: BaseModel) -> dict[str, Any]:
    """A view as plain JSON data."""
    data: dict[str, Any] = json.loads(view.model_dump_json())
    return data


def _error_view(error: SlotQError) -> ErrorView:
    from slotq_core.wire.base import ErrorView, FaultView

    code = error.code if isinstance(error, Refused) else _snake(type(error).__name__)
    found = error.faults if isinstance(error, Refused) else ()
    faults = [FaultView(path=path, message=message) for path, message in found]
    field = getattr(error, "field", "")
    return ErrorView(code=code, message=str(error), field=field, faults=faults)


def _snake(name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")


_NEXT_STEPS: tuple[tuple[type[SlotQError], str], ...] = (
    (NoSuchJob, "`slotq ls --all` lists all jobs."),
    (TooLate, "Nothing was changed."),
    (NameTaken, "`slotq submit --again` takes the next free name."),
    (TooManyWaiting, "`slotq limits` shows your limits and what you use."),
    (PriorityTooHigh, "`slotq limits` shows your limits and what you use."),
)


def _next_step(error: SlotQError) -> str:
    if isinstance(error, NameTaken) and error.field != "TrainingJobName":
        return "A name is used once, for a group and for each of its jobs: choose others."
    return next((step for kind, step in _NEXT_STEPS if isinstance(error, kind)), "")
