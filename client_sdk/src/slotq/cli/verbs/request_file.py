"""CreateTrainingJob requests in files, as JSON or YAML."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TextIO

import click

from slotq.errors import DocumentError
from slotq.jobs.submission import jsonable
from slotq_core.wire import strict_json


def read_requests(files: Sequence[TextIO]) -> tuple[list[dict[str, Any]], bool]:
    """The requests in the files, each of which has one or a list of them; and whether they are for
    many jobs: several files, or a list. Raises UsageError."""
    found: list[dict[str, Any]] = []
    many = len(files) > 1
    for file in files:
        value = _read(file, "a CreateTrainingJob request, or a list of them,")
        many |= isinstance(value, list)
        requests = value if isinstance(value, list) else [value]
        if not requests or not all(isinstance(request, dict) for request in requests):
            raise click.UsageError(
                f"{name_of(file)} must hold one object, a CreateTrainingJob request, or a list of "
                "such objects."
            )
        found += requests
    return found, many


def read_object(file: TextIO, what: str = "a CreateTrainingJob request") -> dict[str, Any]:
    """The object in the file, in which `what` is expected. Raises UsageError."""
    request = _read(file, what)
    if not isinstance(request, dict):
        raise click.UsageError(f"{name_of(file)} must hold one object: {what}.")
    return request


def _read(file: TextIO, what: str) -> Any:
    """What the file holds, and close it. Raises UsageError."""
    from slotq.document.yaml_file import NOT_YAML, parsed

    try:
        text = file.read()
        value = parsed(text, name_of(file)) if _is_yaml(file) else strict_json.parse(text)
        value = jsonable(value)  # YAML knows dates, JSON does not.
    except (*NOT_YAML, DocumentError) as error:
        name = name_of(file)
        run = f" To run it, write `slotq submit -- python {name}`." if name.endswith(".py") else ""
        raise click.UsageError(
            f"{name} cannot be read: {error}. It must hold {what} as JSON (or as YAML in a file "
            f"named .yaml or .yml).{run}"
        ) from None
    if not is_stdin(file):
        file.close()
    return value


def _is_yaml(file: TextIO) -> bool:
    return name_of(file).endswith((".yaml", ".yml"))


def name_of(file: TextIO) -> str:
    """The file's name; `-` if it has none, as a wrapped standard input may."""
    return getattr(file, "name", "-")


def is_stdin(file: TextIO) -> bool:
    return name_of(file) in {"-", "<stdin>"}
