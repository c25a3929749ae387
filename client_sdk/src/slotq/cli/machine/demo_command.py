"""`slotq demo`."""

from __future__ import annotations

import logging
import os
import warnings
from typing import TYPE_CHECKING

import click

from slotq.cli.exits import ExitCode
from slotq.cli.words import Amount
from slotq.demo.environment import bare

if TYPE_CHECKING:
    from slotq.cli.app import App


@click.command
@click.option(
    "--speed",
    type=Amount(1, 20),
    default=10.0,
    show_default=True,
    help="Seconds of the story in one second.",
)
@click.option("--ui", is_flag=True, help="Show the queue in the browser too, until Ctrl-C.")
@click.pass_obj
def demo(app: App, speed: float, *, ui: bool) -> None:
    """Watch the queue at work on this machine: four jobs, two slots, one eviction.

    Runs an emulator of its own; needs no AWS account. Takes about a minute. Exits with 1 if
    a check fails.
    """
    from slotq.installation import needs_extra
    from slotq.ui.built_page import BuiltPage

    console = app.console()
    files, environment = BuiltPage() if ui else None, dict(os.environ)
    with bare():
        with needs_extra("local", "sagemaker2", command="slotq demo"):
            _hush()
            from slotq.demo.driver import DemoPage, run
        page = DemoPage(files=files, environment=environment) if files else None
        held = run(console, speed=speed, page=page)
    raise click.exceptions.Exit(int(ExitCode.OK if held else ExitCode.NO))


def _hush() -> None:
    """Silence the SDK, which warns and logs on import: the demo prints its own messages, and a
    warning must not end it (PYTHONWARNINGS=error)."""
    warnings.simplefilter("ignore")
    for name in ("sagemaker", "sagemaker.config", "botocore"):
        logging.getLogger(name).setLevel(logging.ERROR)
