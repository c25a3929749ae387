"""`slotq demo`."""

from __future__ import annotations

import logging
import warnings

import click

from slotq.cli.app import App
from slotq.cli.exits import Exit
from slotq.cli.words import Amount
from slotq.demo.environment import bare


@click.command
@click.option(
    "--speed",
    type=Amount(1, 20),
    default=10.0,
    show_default=True,
    help="Seconds of the story in one second.",
)
@click.pass_obj
def demo(app: App, speed: float) -> None:
    """Watch the queue at work on this machine: four jobs, two slots, one eviction.

    Runs an emulator of its own; needs no AWS account. Takes about a minute. Exits with 1 if
    a check fails.
    """
    _hush()
    console = app.console()
    with bare():
        try:
            from slotq.demo.driver import run
        except ImportError as error:
            raise click.UsageError(
                f"the demo needs the extras: pip install 'slotq[local,sagemaker2]' ({error})"
            ) from None
        held = run(console, speed=speed)
    raise click.exceptions.Exit(int(Exit.OK if held else Exit.NO))


def _hush() -> None:
    """Silence the SDK, which warns and logs on import: the demo prints its own messages, and a
    warning must not end it (PYTHONWARNINGS=error)."""
    warnings.simplefilter("ignore")
    for name in ("sagemaker", "sagemaker.config", "botocore"):
        logging.getLogger(name).setLevel(logging.ERROR)
