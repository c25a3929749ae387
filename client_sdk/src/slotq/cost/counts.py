"""The queue's use of AWS, as counted by `benchmarks/cost_of_a_job.py`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path

FILE = Path(__file__).with_name("counts.json")


@dataclass(frozen=True, kw_only=True)
class Counts:
    """AWS usage of one activity of the queue; averages, so values may be fractional."""

    requests: float = 0.0
    """Requests to the API."""
    invocations: float = 0.0
    """Invocations of both functions, including those made by the API."""
    dynamodb_calls: float = 0.0
    read_units: float = 0.0
    write_units: float = 0.0
    sagemaker_calls: float = 0.0
    invoke_calls: float = 0.0
    """Invocations by which the queue manager asks itself for another pass."""
    events_put: float = 0.0
    """State changes published as events."""

    def __add__(self, other: Counts) -> Counts:
        return self._with(other, lambda one, two: one + two)

    def __sub__(self, other: Counts) -> Counts:
        return self._with(other, lambda one, two: one - two)

    def __mul__(self, times: float) -> Counts:
        return Counts(**{name: value * times for name, value in asdict(self).items()})

    def __truediv__(self, parts: float) -> Counts:
        return self * (1 / parts)

    def _with(self, other: Counts, join: Callable[[float, float], float]) -> Counts:
        return Counts(
            **{
                field.name: join(getattr(self, field.name), getattr(other, field.name))
                for field in fields(self)
            }
        )

    def as_json(self) -> dict[str, float]:
        return {name: round(value, 3) for name, value in asdict(self).items()}


def measured() -> Mapping[str, Counts]:
    """The counts by activity: `job`, `minute` …, the keys of the benchmark's MEASURED."""
    return {name: Counts(**its) for name, its in json.loads(FILE.read_text()).items()}
