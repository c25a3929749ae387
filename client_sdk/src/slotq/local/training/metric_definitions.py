"""The metrics that SageMaker finds in a training job's output, by the request's definitions."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any


class MetricsInOutput:
    """The last number of each metric. Lines come from several threads; the last one counts."""

    def __init__(self, request: Mapping[str, Any]) -> None:
        algorithm = request.get("AlgorithmSpecification") or {}
        self._patterns = {
            str(each["Name"]): _compiled(str(each["Regex"]))
            for each in algorithm.get("MetricDefinitions") or ()
        }
        self.found: dict[str, float] = {}

    def line(self, text: str) -> None:
        for name, pattern in self._patterns.items():
            for match in pattern.finditer(text) if pattern else ():
                with suppress(ValueError, IndexError, TypeError):
                    if math.isfinite(value := float(match.group(1))):
                        self.found[name] = value


def _compiled(pattern: str) -> re.Pattern[str] | None:
    """The pattern; None if it is none: SageMaker then finds nothing."""
    with suppress(re.error):
        return re.compile(pattern)
    return None
