"""`slotq version`."""

from __future__ import annotations

import click

from slotq.cli.app import App, json_option
from slotq.output.json_views import VersionView
from slotq.version import __version__
from slotq_core.wire.base import VERSION


@click.command
@json_option
@click.pass_obj
def version(app: App) -> None:
    """Print the versions of this program and of its JSON."""
    if app.json:
        click.echo(VersionView(slotq=__version__, wire=VERSION).model_dump_json())
    else:
        click.echo(f"slotq {__version__} (wire version {VERSION})")
