"""`slotq backup`: save the queue's table to a file, and load it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from slotq.cli.app import App, json_option
from slotq.cli.words import MomentWord
from slotq_core.adapters.dynamodb.repair.backup import load_table, save_table
from slotq_core.timestamps import from_datetime

_TABLE = click.option("--table", required=True, metavar="NAME", help="The DynamoDB table.")
_REGION = click.option("--region", metavar="NAME", help="Region of the table.  [as boto3 finds it]")
_FILE = click.argument("file", type=click.Path(path_type=Path, dir_okay=False))


@click.group
def backup() -> None:
    """Save the queue's table to a file and load it, with your own right to the table.

    Stop the queue first: docs/backup.md says how.
    """


@backup.command()
@_FILE
@_TABLE
@_REGION
@json_option
@click.pass_obj
def save(app: App, *, file: Path, table: str, region: str | None) -> None:
    """Write the whole table to a new FILE. It contains every request: keep it safe."""
    with _client(region) as client:
        count = save_table(client, table, file)
    _say(app, count, "saved from", table)


@backup.command()
@_FILE
@_TABLE
@_REGION
@click.option("--replace", is_flag=True, help="First delete everything in the table.")
@click.option(
    "--copied-at",
    type=MomentWord(),
    metavar="MOMENT",
    help="When the table was as it is in FILE.  [as FILE says]",
)
@json_option
@click.pass_obj
def load(
    app: App,
    *,
    file: Path,
    table: str,
    region: str | None,
    replace: bool,
    copied_at: datetime | None,
) -> None:
    """Write the items of FILE into the table, which must be empty, and when they were copied."""
    moment = None if copied_at is None else from_datetime(copied_at)
    with _client(region) as client:
        count = load_table(client, table, file, replace=replace, copied_at=moment)
    _say(app, count, "loaded into", table)


def _say(app: App, count: int, what: str, table: str) -> None:
    text = json.dumps({"items": count, "table": table}) if app.json else ""
    click.echo(text or f"{count:,} items {what} {table}")


@contextmanager
def _client(region: str | None) -> Iterator[Any]:
    """DynamoDB's client; errors inside become errors that commands show."""
    import boto3

    from slotq.transport.aws_errors import aws_errors

    with aws_errors("DynamoDB"):
        yield boto3.client("dynamodb", region_name=region)
