"""`slotq version`."""

from __future__ import annotations

import json

import click

import slotq
from slotq.cli.app import App, json_option
from slotq_core.wire import VERSION


@click.command
@json_option
@click.pass_obj
def version(app: App) -> None:
    """This program's version, and that of the JSON it speaks."""
    if app.json:
        click.echo(json.dumps({"slotq": slotq.__version__, "wire": VERSION}))
    else:
        click.echo(f"slotq {slotq.__version__} (wire version {VERSION})")
