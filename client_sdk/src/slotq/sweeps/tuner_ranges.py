"""The ranges of SageMaker's tuner, of both majors of its SDK, as the samplers that say the same."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from slotq.errors import InvalidRequest
from slotq.sweeps.space import Distribution, distribution

_SCALES: Mapping[str, Mapping[str, str]] = {
    "ContinuousParameter": {
        "Auto": "uniform",
        "Linear": "uniform",
        "Logarithmic": "log_uniform",
        "ReverseLogarithmic": "reverse_log_uniform",
    },
    "IntegerParameter": {"Auto": "integer", "Linear": "integer", "Logarithmic": "log_integer"},
}
"""The kinds of samplers by class and scaling type. SageMaker chooses a scale for `Auto`."""
_NUMBERS: Mapping[str, Callable[[Any], Any]] = {
    "ContinuousParameter": float,
    "IntegerParameter": operator.index,
}
CATEGORICAL = "CategoricalParameter"


def sdk_class(value: object, *names: str) -> str:
    """Which of these classes of SageMaker's SDK the value is of; empty: none of them."""
    found = (
        each.__name__
        for each in type(value).__mro__
        if each.__name__ in names and each.__module__.split(".")[0] == "sagemaker"
    )
    return next(found, "")


def with_samplers(space: Any) -> Any:
    """The space with a sampler in place of each range. Raises InvalidRequest with the field."""
    if not isinstance(space, Mapping):
        return space
    return {key: _sampler(value, f"space.{key}") for key, value in space.items()}


def _sampler(value: Any, field: str) -> Any:
    kind = sdk_class(value, CATEGORICAL, *_SCALES)
    if not kind:
        return value
    return (
        distribution("choice", value.values, field)
        if kind == CATEGORICAL
        else _of(kind, value, field)
    )


def _of(kind: str, range_: Any, field: str) -> Distribution:
    """A sampler of numbers."""
    scale = getattr(range_.scaling_type, "value", range_.scaling_type)
    if scale not in _SCALES[kind]:
        raise InvalidRequest(
            f"{field}: a sweep draws from {kind} by the scaling types {', '.join(_SCALES[kind])}, "
            f"not {scale!r:.40}",
            field=field,
        )
    try:
        bounds = [_NUMBERS[kind](bound) for bound in (range_.min_value, range_.max_value)]
    except (TypeError, ValueError):
        raise InvalidRequest(
            f"{field}: the bounds of {kind} are numbers; a pipeline variable has no value yet",
            field=field,
        ) from None
    return distribution(_SCALES[kind][scale], bounds, field)
