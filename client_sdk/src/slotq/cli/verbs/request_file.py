"""A CreateTrainingJob request in a file, as JSON or YAML."""

from __future__ import annotations

from typing import Any, TextIO

import click

from slotq.errors import DocumentError
from slotq.jobs.submission import jsonable
from slotq_core.wire import strict_json


def from_file(file: TextIO, name: str | None) -> dict[str, Any]:
    """The request in the file, with this name, if one is given. Raises UsageError."""
    request = read_object(file)
    return request if name is None else {**request, "TrainingJobName": name}


def read_object(file: TextIO, what: str = "a CreateTrainingJob request") -> dict[str, Any]:
    """The object in the file, in which `what` is expected. Raises UsageError."""
    from slotq.document.yaml_file import NOT_YAML, parsed

    try:
        text = file.read()
        request = parsed(text, name_of(file)) if _is_yaml(file) else strict_json.parse(text)
        request = jsonable(request)  # YAML knows dates, JSON does not.
    except (*NOT_YAML, DocumentError) as error:
        name = name_of(file)
        run = f" To run it, write `slotq submit -- python {name}`." if name.endswith(".py") else ""
        raise click.UsageError(
            f"{name} cannot be read: {error}. It must hold {what} as JSON (or as YAML in a file "
            f"named .yaml or .yml).{run}"
        ) from None
    if not isinstance(request, dict):
        raise click.UsageError(f"{name_of(file)} must hold one object: {what}.")
    return request


def _is_yaml(file: TextIO) -> bool:
    return name_of(file).endswith((".yaml", ".yml"))


def name_of(file: TextIO) -> str:
    """The file's name; `-` if it has none, as a wrapped standard input may."""
    return getattr(file, "name", "-")


def is_stdin(file: TextIO) -> bool:
    return name_of(file) in {"-", "<stdin>"}
