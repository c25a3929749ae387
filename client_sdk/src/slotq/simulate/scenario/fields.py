"""The types of values in a scenario file: what each accepts, and the message for other values.

Strict where YAML is lenient: `"2"` is no number, and `yes` is no text.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, PlainValidator, ValidationError

from slotq.simulate.scenario.faults import Fault, faults_of, refuse, said
from slotq_core.model.demand import Demand

FAULT, NO_CAPACITY, NO_ROLE = FAILURES = ("fault", "no_capacity", "no_role")
"""The failures of an attempt that never runs."""

MOST = 1_000_000
"""The largest number of slots, or of units of any other resource."""

_LONGEST = 10_000_000_000
"""The largest number of seconds, a few hundred years. Later moments have no date."""


def _seconds(value: object) -> int:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or abs(value) > _LONGEST:  # type: ignore[arg-type]
        raise ValueError(f"a number of seconds is needed, not {said(value)}")
    return round(value * 1000)  # type: ignore[operator]


def _duration(value: object) -> int:
    seconds = _seconds(value)
    if seconds < 0:
        raise ValueError(f"a duration is at least 0 seconds, not {said(value)}")
    return seconds


def _period(value: object) -> int:
    milliseconds = _seconds(value)
    if milliseconds <= 0:
        raise ValueError(f"more than 0 seconds are needed, not {said(value)}")
    return milliseconds


def _failure(value: object) -> int | str | None:
    if value is None or value in FAILURES:
        return value
    try:
        return _period(value)
    except ValueError:
        raise ValueError(
            "seconds of running after which the attempt fails, one of "
            f"{', '.join(FAILURES)}, or null is needed, not {said(value)}"
        ) from None


def _whole(low: int, high: int) -> Callable[[object], int]:
    def check(value: object) -> int:
        whole = isinstance(value, int) and not isinstance(value, bool)
        if not whole or not low <= value <= high:  # type: ignore[operator]
            raise ValueError(
                f"a whole number from {low:,} to {high:,} is needed, not {said(value)}"
            )
        return value  # type: ignore[return-value]

    return check


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        quoted = "; put it in quotes" if isinstance(value, int | float) else ""
        raise ValueError(f"a name is needed, not {said(value)}{quoted}")
    return value


def _maybe_text(value: object) -> str:
    return "" if value == "" else _text(value)


def _moment(value: object) -> int | str:
    if value == "end":
        return "end"
    try:
        return _seconds(value)
    except ValueError:
        message = f"a number of seconds, or end, is needed, not {said(value)}"
        raise ValueError(message) from None


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"true or false is needed, not {said(value)}")
    return value


def _priority(value: object) -> int | str:
    if isinstance(value, str) and value:
        return value
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > 1_000_000:
        raise ValueError(
            "the name of a class, or a whole number from -1,000,000 to 1,000,000, is needed, "
            f"not {said(value)}"
        )
    return value


def _vector(low: int, slots: int) -> Callable[[object], Demand]:
    """A check for amounts by resource. A bare number means slots. `slots`: the least number of
    slots."""

    def check(value: object) -> Demand:
        if isinstance(value, Demand):
            return value
        if not isinstance(value, dict):
            return Demand(slots=_whole(slots, MOST)(value))
        if slots and "slots" not in value:
            raise ValueError("slots are needed: {slots: n, …}")
        _each(value, lambda name: _whole(slots if name == "slots" else low, MOST))
        return Demand(value)

    return check


def _properties(value: object) -> Demand:
    if not isinstance(value, dict):
        raise ValueError(
            f"amounts by name are needed: {{mem_per_gpu_in_GiB: 16}}, not {said(value)}"
        )
    _each(value, lambda _: _whole(1, MOST))
    return Demand(value)


def _parts(value: object) -> dict[str, Demand]:
    if not isinstance(value, dict) or len(value) < 2:
        raise ValueError(f"a map of two or more pools is needed, not {said(value)}")
    vector = _vector(0, 1)
    _each(value, lambda _: vector)
    return {name: vector(amounts) for name, amounts in value.items()}


def _quota(value: object) -> int | dict[str, Any]:
    if not isinstance(value, dict):
        return _whole(0, MOST)(value)
    vector, number = _vector(0, 0), _whole(0, MOST)
    _each(value, lambda _: lambda inner: (vector if isinstance(inner, dict) else number)(inner))
    return dict(value)


def _limits(value: object) -> dict[str, dict[str, int]]:
    if not isinstance(value, dict):
        raise ValueError(f"limits by pool and class are needed, not {said(value)}")
    _each(value, lambda _: _by_class)
    return dict(value)


def _by_class(value: object) -> None:
    if not isinstance(value, dict):
        raise ValueError(f"slots by class are needed: {{HIGH: 4, …}}, not {said(value)}")
    _each(value, lambda _: _whole(0, MOST))


def _each(values: dict[Any, Any], check_of: Callable[[str], Callable[[object], object]]) -> None:
    """Check every value of a map by its key. A fault is reported at its key."""
    faults: list[Fault] = []
    for name, value in values.items():
        if not isinstance(name, str) or not name:
            faults.append(Fault((), f"names are needed as keys, not {said(name)}"))
            continue
        try:
            check_of(name)(value)
        except ValidationError as error:
            faults += [Fault((name, *deeper.loc), deeper.message) for deeper in faults_of(error)]
        except ValueError as error:
            faults.append(Fault((name,), str(error)))
    if faults:
        refuse(*faults)


Seconds = Annotated[int, BeforeValidator(_seconds)]
"""Seconds in the file; whole milliseconds in the model."""
Duration = Annotated[int, BeforeValidator(_duration)]
"""The same, at least 0."""
Period = Annotated[int, BeforeValidator(_period)]
"""The same, more than 0."""
Failure = Annotated[int | str | None, BeforeValidator(_failure)]
"""The failure of one attempt."""
Moment = Annotated[int | Literal["end"], BeforeValidator(_moment)]
Count = Annotated[int, BeforeValidator(_whole(0, MOST))]
Positive = Annotated[int, BeforeValidator(_whole(1, MOST))]
Value = Annotated[int, BeforeValidator(_whole(-1_000_000, 1_000_000))]
"""A priority."""
Name = Annotated[str, BeforeValidator(_text)]
MaybeName = Annotated[str, BeforeValidator(_maybe_text)]
"""A name, or the empty string for none."""
Flag = Annotated[bool, BeforeValidator(_flag)]
Priority = Annotated[int | str, BeforeValidator(_priority)]
"""A number, or the name of a class."""
Capacity = Annotated[Demand, PlainValidator(_vector(1, 1))]
"""Slots, or amounts by resource: `2`, `{slots: 2, gpus: 16}`."""
Properties = Annotated[Demand, PlainValidator(_properties)]
"""What the slots of a pool are like: `{mem_per_gpu_in_GiB: 16}`."""
Vector = Annotated[Demand, PlainValidator(_vector(0, 1))]
"""The demand of a job."""
Parts = Annotated[dict[str, Demand], PlainValidator(_parts)]
"""The demand of a job in several pools at once: `{p: 2, q: {slots: 1, gpus: 8}}`."""
Amounts = Annotated[Demand, PlainValidator(_vector(1, 0))]
"""The new capacity of some resources."""
Use = Annotated[Demand, PlainValidator(_vector(0, 0))]
"""The part of a pool that is in use."""
Limits = Annotated[dict[str, dict[str, int]], BeforeValidator(_limits)]
"""`{p5: {HIGH: 4}}`: slots by pool and class."""
Quota = Annotated[int | dict[str, Any], BeforeValidator(_quota)]
"""`4` (slots over all pools together), `{slots: 4, gpus: 16}` (likewise), `{p5: 4}` or `{p5:
{slots: 4, gpus: 16}}` (pool by pool). `scenario.amounts` tells them apart."""
