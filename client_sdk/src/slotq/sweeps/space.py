"""What a sweep tries: a grid, a list, or a seeded sampler. All three are data: the same space gives
the same trials on every machine, so a sweep can be submitted again to go on."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from slotq.errors import InvalidRequest
from slotq_core.wire.groups.group_submission import MOST_MEMBERS

Value = bool | int | float | str
Parameters = dict[str, Value]
"""What one trial tries, by name."""

_LARGEST = 1e300
"""The largest absolute value of a number: the difference of larger ones may overflow."""
_DIGITS = 12
"""Significant digits of a sampled number: fewer than machines agree on."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Distribution:
    """The values that one parameter is sampled from. `kind` is a key of `KINDS`."""

    kind: str
    values: tuple[Any, ...]

    def at(self, quantile: float) -> Value:
        """The value at a quantile, from 0 to below 1."""
        return KINDS[self.kind](quantile, self.values)


def uniform(low: float, high: float) -> Distribution:
    """Numbers from `low` to `high`, all equally likely. Raises InvalidRequest."""
    return distribution("uniform", [low, high])


def log_uniform(low: float, high: float) -> Distribution:
    """The same for their logarithms: each power of ten is as likely as the next. `low` is above
    0."""
    return distribution("log_uniform", [low, high])


def reverse_log_uniform(low: float, high: float) -> Distribution:
    """Numbers whose distance from 1 is `log_uniform`: for a momentum. From 0 to below 1."""
    return distribution("reverse_log_uniform", [low, high])


def integer(low: int, high: int) -> Distribution:
    """Whole numbers from `low` to `high`, both included."""
    return distribution("integer", [low, high])


def log_integer(low: int, high: int) -> Distribution:
    """The same for their logarithms. `low` is above 0."""
    return distribution("log_integer", [low, high])


def choice(*values: Value) -> Distribution:
    """Any of these values."""
    return distribution("choice", values)


def _uniform(quantile: float, values: Sequence[Any]) -> float:
    low, high = values
    return _rounded(low + quantile * (high - low))


def _log_uniform(quantile: float, values: Sequence[Any]) -> float:
    low, high = map(math.log, values)
    return _rounded(math.exp(low + quantile * (high - low)))


def _reverse_log_uniform(quantile: float, values: Sequence[Any]) -> float:
    low, high = values
    return _rounded(1 - _log_uniform(1 - quantile, (1 - high, 1 - low)))


def _integer(quantile: float, values: Sequence[Any]) -> int:
    low, high = map(int, values)
    return low + min(int(quantile * (high - low + 1)), high - low)


def _log_integer(quantile: float, values: Sequence[Any]) -> int:
    low, high = map(int, values)
    return min(int(_log_uniform(quantile, (low, high + 1))), high)


def _choice(quantile: float, values: Sequence[Any]) -> Value:
    chosen: Value = values[int(quantile * len(values))]
    return chosen


KINDS: Mapping[str, Callable[[float, Sequence[Any]], Value]] = {
    "uniform": _uniform,
    "log_uniform": _log_uniform,
    "reverse_log_uniform": _reverse_log_uniform,
    "integer": _integer,
    "log_integer": _log_integer,
    "choice": _choice,
}


def distribution(kind: str, values: Iterable[Any], field: str = "space") -> Distribution:
    """A distribution of that kind. Raises InvalidRequest with the field."""
    arguments = tuple(values)
    if kind == "choice":
        if not arguments:
            raise InvalidRequest(f"{field}: choice needs at least one value", field=field)
        return Distribution(kind=kind, values=arguments)
    what, numbers = ("whole numbers", int) if kind in _WHOLE else ("numbers", (int, float))
    within, is_within = _WITHIN.get(kind, ("", lambda *_: True))
    legal = len(arguments) == 2 and all(is_number(value, numbers) for value in arguments)
    if not legal or arguments[0] > arguments[1] or not is_within(*arguments):
        raise InvalidRequest(
            f"{field}: {kind} takes two {what}{within}, the smaller first, not {list(arguments)}",
            field=field,
        )
    return Distribution(kind=kind, values=arguments)


_WHOLE = frozenset({"integer", "log_integer"})
_WITHIN: Mapping[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "log_uniform": (" above 0", lambda low, _: low > 0),
    "log_integer": (" above 0", lambda low, _: low > 0),
    "reverse_log_uniform": (" from 0 to below 1", lambda low, high: low >= 0 and high < 1),
}
"""What the numbers of a kind must be, in words and as a test."""


def is_number(value: Any, kinds: Any = (int, float)) -> bool:
    """Whether the value is a number of these kinds that can be reckoned with."""
    return isinstance(value, kinds) and not isinstance(value, bool) and abs(value) <= _LARGEST


def is_value(value: object) -> bool:
    """Whether a parameter can have the value."""
    return isinstance(value, bool | str) or is_number(value)


def read_space(space: object, field: str = "space") -> Mapping[str, Any] | list[Parameters]:
    """A space as a file says it: `{lr: [0.1, 0.2]}`, `{lr: {log_uniform: [1e-5, 0.1]}}` or a list
    of objects. Raises InvalidRequest."""
    if isinstance(space, list):
        return space
    if not isinstance(space, Mapping):
        raise InvalidRequest(
            f"{field} takes values by parameter (lists, or samplers such as uniform: [0, 1]), or a "
            "list of objects",
            field=field,
        )
    return {str(key): _read(value, f"{field}.{key}") for key, value in space.items()}


def _read(value: Any, field: str) -> Any:
    if not isinstance(value, Mapping):
        return value
    kind = next(iter(value), "")
    if len(value) > 1 or kind not in KINDS or not isinstance(value[kind], list):
        raise InvalidRequest(
            f"{field} takes a list of values, or one of {', '.join(KINDS)} with a list", field=field
        )
    return distribution(kind, value[kind], field)


def trials_of(
    space: Mapping[str, Any] | Sequence[Any],
    *,
    trials: int | None = None,
    seed: int = 0,
    first: int = 1,
) -> list[Parameters]:
    """The trials of a space, in order. A mapping of lists is a grid, whose last parameter changes
    fastest; with distributions it is a sampler, of which `trials` from number `first` on are taken.
    Raises InvalidRequest."""
    if not isinstance(space, Mapping):
        objects = (trial for trial in space if isinstance(trial, Mapping))
        found = [{str(key): value for key, value in trial.items()} for trial in objects]
        if len(found) < len(space):
            raise InvalidRequest("space: a list holds one object for each trial", field="space")
        sampled = False
    else:
        sampled = any(isinstance(value, Distribution) for value in space.values())
        found = _sampled(space, trials, seed, first) if sampled else _grid(space)
    for name, present in (
        ("trials", trials is not None),
        ("first", first != 1),
        ("seed", seed != 0),
    ):
        if present and not sampled:
            what = (
                "decides what a sampler draws; a grid or a list has no chance in it"
                if name == "seed"
                else "counts what a sampler draws; a grid or a list has its own number"
            )
            raise InvalidRequest(f"{name} {what}", field=name)
    if not 1 <= len(found) <= MOST_MEMBERS:
        raise InvalidRequest(
            f"the space has {len(found):,} trials, and a sweep has 1 to {MOST_MEMBERS:,}: take a "
            "sampler with trials, or split the space",
            field="space",
        )
    for number, trial in enumerate(found):
        _check(trial, f"space.{number}")
    return found


def _grid(space: Mapping[str, Any]) -> list[Parameters]:
    if not space:
        raise InvalidRequest("space has no parameters", field="space")
    values = [value if isinstance(value, list | tuple) else [value] for value in space.values()]
    number = math.prod(map(len, values))
    if number > MOST_MEMBERS:
        raise InvalidRequest(
            f"the grid has {number:,} points, and a sweep has at most {MOST_MEMBERS:,}: take a "
            "sampler with trials, or split the grid",
            field="space",
        )
    return [dict(zip(space, point, strict=True)) for point in product(*values)]


def _sampled(
    space: Mapping[str, Any], trials: int | None, seed: int, first: int
) -> list[Parameters]:
    for name, value in space.items():
        if isinstance(value, list | tuple):
            raise InvalidRequest(
                f"space.{name} is a list beside samplers: write choice: {list(value)}",
                field=f"space.{name}",
            )
    for name, number, least in (("trials", trials, 1), ("first", first, 1), ("seed", seed, 0)):
        if isinstance(number, bool) or not isinstance(number, int) or number < least:
            raise InvalidRequest(
                f"{name} takes a whole number from {least}; a sampler needs one", field=name
            )
    assert trials is not None
    if trials > MOST_MEMBERS:
        raise InvalidRequest(
            f"a sweep has at most {MOST_MEMBERS:,} trials: submit the next {MOST_MEMBERS:,} as "
            f"another sweep with first: {first + MOST_MEMBERS:,}",
            field="trials",
        )
    return [
        {name: _drawn(value, name, seed, number) for name, value in space.items()}
        for number in range(first, first + trials)
    ]


def _drawn(value: Any, name: str, seed: int, number: int) -> Any:
    if not isinstance(value, Distribution):
        return value
    digest = hashlib.sha256(f"{seed}/{number}/{name}".encode()).digest()
    return value.at(int.from_bytes(digest[:6]) / 2**48)


def _check(trial: Mapping[str, Any], field: str) -> None:
    for name, value in trial.items():
        if not is_value(value) or not name:
            raise InvalidRequest(
                f"{field}.{name}: a parameter is a number, a text, true or false, not {value!r}",
                field=f"{field}.{name}",
            )


def _rounded(number: float) -> float:
    return float(f"{number:.{_DIGITS}g}")
