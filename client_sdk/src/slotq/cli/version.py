"""`slotq version`."""

from __future__ import annotations

import click

import slotq
from slotq.cli.app import App, json_option
from slotq.cli.views import VersionView
from slotq_core.wire import VERSION


@click.command
@json_option
@click.pass_obj
def version(app: App) -> None:
    """This program's version, and that of the JSON it speaks."""
    if app.json:
        click.echo(VersionView(slotq=slotq.__version__, wire=VERSION).model_dump_json())
    else:
        click.echo(f"slotq {slotq.__version__} (wire version {VERSION})")
