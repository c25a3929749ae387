"""The steps of a SageMaker pipeline that start training jobs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

_TRAINING = frozenset({"Training", "Tuning", "AutoML"})
"""The types of such steps. Notebook jobs and functions with `@step` are of type Training, too."""


def training_steps(definition: str) -> list[str]:
    """The names of these steps, those in branches included. `definition`: as DescribePipeline gives
    it. Raises ValueError if it cannot be read."""
    try:
        return [*_steps(json.loads(definition)["Steps"])]
    except (KeyError, TypeError, AttributeError):
        raise ValueError("this is no definition of a pipeline") from None


def _steps(steps: list[Mapping[str, Any]]) -> Iterator[str]:
    for step in steps:
        if step["Type"] in _TRAINING:
            yield step["Name"]
        arguments = step.get("Arguments") or {}
        for branch in ("IfSteps", "ElseSteps"):
            yield from _steps(arguments.get(branch) or [])
