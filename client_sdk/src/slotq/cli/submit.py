"""`slotq submit`."""

from __future__ import annotations

import json
from typing import Any, TextIO

import click
import yaml

from slotq.cli.app import App, json_option
from slotq.cli.tables import explanation
from slotq.cli.watch import follow_job
from slotq.submission import settings_tags, with_tags


@click.command
@click.argument("file", type=click.File(encoding="utf-8"))
@click.option("--name", help="The job's name instead of the file's TrainingJobName.")
@click.option("--priority", type=int, help="High first.")
@click.option("--pools", help="Pools that it may run in, comma separated, the most welcome first.")
@click.option("--preemptible/--not-preemptible", default=None, help="Whether it may be evicted.")
@click.option("--min-runtime", type=int, metavar="SECONDS", help="Safe so long after each start.")
@click.option("--retries", type=int, help="Runs again so often if it fails by itself.")
@click.option("--wait", is_flag=True, help="Follow it to its end, as `slotq watch NAME` does.")
@json_option
@click.pass_obj
def submit(app: App, /, file: TextIO, name: str | None, *, wait: bool, **settings: Any) -> None:
    """Put the CreateTrainingJob request in FILE (JSON or YAML, - for stdin) into the queue.

    The options become tags of the request, in the place of those that it has.
    """
    request = _read(file)
    if name is not None:
        request = {**request, "TrainingJobName": name}
    client = app.client()
    job = client.submit(with_tags(request, settings_tags(**settings), override=True))
    if wait:
        follow_job(app, client, job.name)
    else:
        app.answer(job, explanation(job))


def _read(file: TextIO) -> dict[str, Any]:
    text = file.read()
    try:
        request = yaml.safe_load(text) if _is_yaml(file) else json.loads(text)
    except (ValueError, yaml.YAMLError) as error:
        raise click.UsageError(
            f"{file.name} cannot be read: {error}. It must hold a CreateTrainingJob request as "
            "JSON (or as YAML in a file named .yaml or .yml)."
        ) from None
    if not isinstance(request, dict):
        raise click.UsageError(f"{file.name} must hold one object: a CreateTrainingJob request.")
    return request


def _is_yaml(file: TextIO) -> bool:
    return file.name.endswith((".yaml", ".yml"))
