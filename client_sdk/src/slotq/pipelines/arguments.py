"""A training request as the arguments of a callback step.

Pipelines gives values to variables in the arguments themselves, not in a text. So the request
travels as JSON with a placeholder for each variable, and the variable as an argument of its own
(`slotq_core.wire.training.step_messages` puts them together again).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from slotq.errors import InvalidRequest
from slotq.jobs.submission import jsonable
from slotq_core.wire.training.step_messages import (
    ABANDONED,
    KIND,
    MOST_ARGUMENTS,
    PLACEHOLDER,
    REQUEST,
)

_KINDS = {"Integer": "integer", "Float": "float", "Boolean": "boolean"}
"""The type of a placeholder's value, by the type of the pipeline's parameter."""


def step_arguments(
    request: Mapping[str, Any], variable: type, *, when_abandoned: str
) -> dict[str, Any]:
    """The arguments that carry this request, in which objects of the type `variable` are pipeline
    variables. The same request gives the same arguments, so that Pipelines can cache the step.

    Raises InvalidRequest with the path of a value that JSON cannot hold, and if the request is too
    large for a message.
    """
    variables: dict[str, Any] = {}
    placed = jsonable(_placed(request, variable, variables))
    arguments = {REQUEST: json.dumps(placed, sort_keys=True), ABANDONED: when_abandoned}
    size = len(json.dumps(arguments).encode())
    if size > MOST_ARGUMENTS:
        raise InvalidRequest(
            f"the training request has {size:,} bytes, and the message of a callback step takes "
            f"{MOST_ARGUMENTS:,}: put large hyperparameters or environment variables into a file "
            "in S3",
            field=REQUEST,
        )
    return arguments | variables


def _placed(value: Any, variable: type, variables: dict[str, Any]) -> Any:
    """The value with placeholders. Adds the variables, by the names of their arguments."""
    if isinstance(value, variable):
        kind = getattr(getattr(value, "parameter_type", None), "value", "")
        typed = {KIND: _KINDS[kind]} if kind in _KINDS else {}
        return {PLACEHOLDER: _name(value, variables), **typed}
    if isinstance(value, Mapping):
        return {key: _placed(value[key], variable, variables) for key in sorted(value)}
    if isinstance(value, list | tuple):
        return [_placed(item, variable, variables) for item in value]
    return value


def _name(value: Any, variables: dict[str, Any]) -> str:
    """The argument's name for a variable. Variables of one expression share it."""
    for name, known in variables.items():
        if known.expr == value.expr:
            return name
    name = f"v{len(variables) + 1}"
    variables[name] = value
    return name
