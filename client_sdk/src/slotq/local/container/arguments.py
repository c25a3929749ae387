"""The hyperparameters of a request, and script mode's command-line arguments made of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

PROGRAM, DIRECTORY = "sagemaker_program", "sagemaker_submit_directory"


def hyperparameters(request: Mapping[str, Any]) -> dict[str, Any]:
    """The hyperparameters, decoded: the SDK writes each value as JSON."""
    return {name: _decoded(text) for name, text in (request.get("HyperParameters") or {}).items()}


def _decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def user_parameters(request: Mapping[str, Any]) -> dict[str, Any]:
    """The hyperparameters without SageMaker's own."""
    values = hyperparameters(request).items()
    return {name: value for name, value in values if not name.startswith("sagemaker_")}


def source_of(request: Mapping[str, Any]) -> str | None:
    """The location of the user's code (an S3 URI of a tar file, or a folder); None without script
    mode."""
    values = hyperparameters(request)
    return str(values[DIRECTORY]) if PROGRAM in values and values.get(DIRECTORY) else None


def is_script_mode(request: Mapping[str, Any]) -> bool:
    return source_of(request) is not None


def user_arguments(request: Mapping[str, Any]) -> list[str]:
    """`--name value` (`-n value` for one letter) for each hyperparameter of the user, by name."""
    arguments = []
    for name, value in sorted(user_parameters(request).items()):
        arguments += [f"--{name}" if len(name) > 1 else f"-{name}", _argument(value)]
    return arguments


def _argument(value: Any) -> str:
    """A value as the toolkit writes it: a map as `key=value` pairs, None as nothing."""
    if value is None:
        return ""
    if isinstance(value, Mapping):
        return ",".join(f"{key}={each}" for key, each in sorted(value.items()))
    return str(value)
