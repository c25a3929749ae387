"""What is said of a request or a training job, without what only its owner may see.

A job's message is shown to everybody who may look at the queue. But SageMaker quotes the value that
it refuses, botocore too, and the framework containers end a FailureReason with the script's command
line: its hyperparameters. Those and the environment hold passwords.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

MARK = "…"
"""Stands where something is withheld."""

SECRET_FIELDS = ("HyperParameters", "Environment", "Tags")
"""The fields of a request whose values nobody is shown but by GET /jobs/{name}/request."""

_OPEN = frozenset(
    f"sagemaker_{name}" for name in ("container_log_level", "job_name", "program", "region")
)
"""Hyperparameters that SageMaker's SDK sets by itself and that everybody knows."""

_SHORTEST = 4
"""Characters: a shorter value is no secret, and would be found in any text."""
_LONG = 16

_QUOTED = (
    # SageMaker: 1 validation error detected: Value '{…}' at 'environment' failed to satisfy …
    (re.compile(r"\b(Value) '.*?' (at ')", re.DOTALL), rf"\1 '{MARK}' \2"),
    # botocore: Invalid type for parameter Environment.A, value: …, type: <class 'list'>, …
    (re.compile(r"(, value: ).*?(, (?:type: <|valid ))", re.DOTALL), rf"\1{MARK}\2"),
    # The containers' training toolkit: … Command "/usr/bin/python3 train.py --epochs 3"
    (re.compile(r'\b(Command ").*?"?(, exit code: \d+)?\Z', re.DOTALL), rf'\1{MARK}"\2'),
)


def without_secrets(text: str, request: Mapping[str, Any]) -> str:
    """The text without the request's hyperparameters, environment and tags, whole or quoted."""
    for value in sorted(set(_secrets(request)), key=len, reverse=True):
        text = re.sub(_occurrence(value), MARK, text)
    for pattern, replacement in _QUOTED:
        text = pattern.sub(replacement, text)
    return text


def _occurrence(value: str) -> str:
    """A short word is looked for as a word: "adam" is not in "madam"."""
    exact = re.escape(value)
    return rf"\b{exact}\b" if value.isalnum() and len(value) < _LONG else exact


def _secrets(request: Mapping[str, Any]) -> Iterator[str]:
    """Each value as it is, as Python and JSON write it, and without the quotation marks that the
    SDK puts around a hyperparameter."""
    for field in SECRET_FIELDS:
        for value in _leaves(request.get(field)):
            for form in (value, value.strip('"'), json.dumps(value)[1:-1], repr(value)[1:-1]):
                if len(form) >= _SHORTEST:
                    yield form


def _leaves(value: Any) -> Iterator[str]:
    """The values, whatever form somebody has given the field; of a tag its value alone."""
    if isinstance(value, Mapping):
        tag = value.keys() == {"Key", "Value"}
        for key, each in value.items():
            if key not in _OPEN and not (tag and key == "Key"):
                yield from _leaves(each)
    elif isinstance(value, list):
        for each in value:
            yield from _leaves(each)
    elif value is not None:
        yield str(value)
