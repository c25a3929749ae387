"""The types of values in a document: accepted forms, and messages for other values.

Strict where YAML is lenient: `"2"` is no number, and `yes` is no text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainValidator, ValidationError, WithJsonSchema

from slotq_core.errors import InvalidRequest
from slotq_core.gpu_amounts import MOST as MOST_GPUS
from slotq_core.gpu_amounts import RULE, Gpus, gpus_number, read_gpus
from slotq_core.model.callers import fits_everybody
from slotq_core.model.demand import Demand
from slotq_core.model.pools import AUTO
from slotq_core.model.projects import HOUR
from slotq_core.privacy.identity import fault_in
from slotq_core.timestamps import WITH_UNITS, seconds_in
from slotq_core.wire import traits
from slotq_core.wire.document.faults import DocumentFault, faults_of, refuse, said
from slotq_core.wire.document.requests.request_fields import request_fields
from slotq_core.wire.pool_definition import (
    AUTOMATIC,
    GRACE,
    property_rule,
    property_value,
    sized,
)

MOST = 1_000_000
"""The largest number of slots, or of units of any other resource."""

DAY = 86_400_000
"""A day in ms."""

_LONGEST = 10_000_000_000
"""The largest number of seconds, a few hundred years. Later moments have no date."""


def seconds(value: object) -> int:
    """Read seconds, or a text with units such as `2h`; return whole milliseconds. Raises
    ValueError, as all checks here do."""
    amount = seconds_in(value) if isinstance(value, str) else value
    number = isinstance(amount, int | float) and not isinstance(amount, bool)
    if not number or not abs(amount) <= _LONGEST:  # type: ignore[arg-type]  # NaN is no less either.
        units = ", nor a time such as 90s, 30m, 2h or 1d" if isinstance(value, str) else ""
        raise ValueError(f"a number of seconds is needed, not {said(value)}{units}")
    return round(amount * 1000)  # type: ignore[operator]


def _duration(value: object) -> int:
    milliseconds = seconds(value)
    if milliseconds < 0:
        raise ValueError(f"a duration is at least 0 seconds, not {said(value)}")
    return milliseconds


def _grace(value: object) -> int:
    """Read a duration, or a switch: on is `GRACE`."""
    switches = {True: GRACE, "on": GRACE, False: 0, "off": 0}
    known = isinstance(value, bool) or (isinstance(value, str) and value in switches)
    return _duration(switches[value] if known else value)


def period(value: object) -> int:
    """Read a number of seconds above 0; return milliseconds."""
    milliseconds = seconds(value)
    if milliseconds <= 0:
        raise ValueError(f"more than 0 seconds are needed, not {said(value)}")
    return milliseconds


def whole(low: int, high: int) -> Callable[[object], int]:
    """Return a check for whole numbers from `low` to `high`."""

    def check(value: object) -> int:
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        if not is_whole or not low <= value <= high:  # type: ignore[operator]
            raise ValueError(
                f"a whole number from {low:,} to {high:,} is needed, not {said(value)}"
            )
        return value  # type: ignore[return-value]

    return check


MOST_SLOT_HOURS = 1_000_000_000


def _slot_hours(value: object) -> int:
    """Read slot-hours; return slots multiplied by ms."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    slot_ms = round(value * HOUR) if number and 0 < value <= MOST_SLOT_HOURS else 0  # type: ignore[operator]
    if not slot_ms:
        raise ValueError(
            f"a number of slot-hours above 0, up to {MOST_SLOT_HOURS:,}, is needed, not "
            f"{said(value)}"
        )
    return slot_ms


def _influence(value: object) -> int:
    """Read a number from 0 to 1; return hundredths."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    hundredths = round(value * 100) if number and 0 <= value <= 1 else -1  # type: ignore[operator]
    if hundredths < 0 or hundredths != round(value * 100, 6):  # type: ignore[operator]
        raise ValueError(f"a number from 0 to 1 in hundredths is needed, not {said(value)}")
    return hundredths


def _half_life(value: object) -> int:
    milliseconds = seconds(value)
    if not DAY <= milliseconds <= 90 * DAY:
        raise ValueError(f"a half-life is from 1d to 90d, not {said(value)}")
    return milliseconds


def _gpus(value: object) -> Gpus:
    """Read a number of GPUs; return hundredths."""
    if isinstance(value, str):
        raise ValueError(f"a number is needed: {RULE}, not {said(value)}")
    return read_gpus(value)


def text(value: object) -> str:
    """Read a name."""
    if not isinstance(value, str) or not value:
        quoted = "; put it in quotes" if isinstance(value, int | float) else ""
        raise ValueError(f"a name is needed, not {said(value)}{quoted}")
    return value


def _maybe_text(value: object) -> str:
    return "" if value == "" else text(value)


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"true or false is needed, not {said(value)}")
    return value


def vector(low: int, slots: int) -> Callable[[object], Demand]:
    """Return a check for amounts by resource. A bare number means slots. `slots`: the least number
    of slots."""

    def check(value: object) -> Demand:
        if isinstance(value, Demand):
            return value
        if not isinstance(value, dict):
            return Demand(slots=whole(slots, MOST)(value))
        if slots and "slots" not in value:
            raise ValueError("slots are needed: {slots: n, …}")
        amounts = {name: sized(str(name), amount) for name, amount in value.items()}
        check_entries(amounts, lambda name: whole(slots if name == "slots" else low, MOST))
        return Demand(amounts)

    return check


def _user_limits(value: object) -> dict[str, dict[str, int]]:
    if not isinstance(value, dict):
        raise ValueError(f"limits by pool and class are needed, not {said(value)}")
    check_entries(value, lambda _: _by_class)
    return dict(value)


def _by_class(value: object) -> None:
    if not isinstance(value, dict):
        raise ValueError(f"slots by class are needed: {{HIGH: 4, …}}, not {said(value)}")
    check_entries(value, lambda _: whole(0, MOST))


def _properties(value: object) -> Demand:
    if not isinstance(value, dict):
        raise ValueError(
            f"amounts by name are needed: {{mem_per_gpu_in_GiB: 16}}, not {said(value)}"
        )
    check_entries(value, _property_of)
    read = {name: property_value(name, given) for name, given in value.items()}
    return Demand(traits.encoded({name: own for name, own in read.items() if own is not None}))


def _property_of(name: str) -> Callable[[object], None]:
    def check(value: object) -> None:
        if property_value(name, value) is None:
            raise ValueError(f"{property_rule(name, value)} is needed, not {said(value)}")

    return check


WEIGHTS = {"None": 0, "Low": 1, "Medium": 2, "High": 3}
"""Run:ai's names for weights."""

LONGEST_PATTERN = 512

EVERYONE = "everyone"
"""The pattern of all callers. `*` is refused, because it is more often a mistake."""


def _weight(value: object) -> int | dict[str, int] | None:
    if not isinstance(value, dict):
        return _one_weight(value)
    check_entries(value, lambda _: _one_weight)
    return {resource: _one_weight(own) for resource, own in value.items()} or None


def _one_weight(value: object) -> int:
    if isinstance(value, str) and value in WEIGHTS:
        return WEIGHTS[value]
    try:
        return whole(0, MOST)(value)
    except ValueError:
        raise ValueError(
            f"a whole number from 0 to {MOST:,}, or one of {', '.join(WEIGHTS)}, is needed, not "
            f"{said(value)}"
        ) from None


def _pattern(value: object) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= LONGEST_PATTERN:
        raise ValueError(
            f"a text of 1 to {LONGEST_PATTERN} characters is needed, in which * matches any text, "
            f"not {said(value)}"
        )
    return value


def _principal(value: object) -> str:
    pattern = _pattern(value)
    if pattern == EVERYONE:
        return "*"
    if fits_everybody(pattern):
        raise ValueError(
            f"'{pattern}' matches callers of any account and any name: name an account, a role or "
            f"a user, or write {EVERYONE} if you mean everybody"
        )
    return pattern


def _session_role(value: object) -> str:
    pattern = _pattern(value)
    if fault := fault_in(pattern):
        raise ValueError(fault)
    return pattern


def _quota(value: object) -> int | dict[str, Any]:
    if not isinstance(value, dict):
        return whole(0, MOST)(value)
    amounts, number = vector(0, 0), whole(0, MOST)
    check_entries(
        value, lambda _: lambda inner: (amounts if isinstance(inner, dict) else number)(inner)
    )
    return dict(value)


def check_entries(
    values: dict[Any, Any], check_of: Callable[[str], Callable[[object], object]]
) -> None:
    """Check every value of a map by its key. A fault is reported at its key."""
    faults: list[DocumentFault] = []
    for name, value in values.items():
        if not isinstance(name, str) or not name:
            faults.append(DocumentFault((), f"names are needed as keys, not {said(name)}"))
            continue
        try:
            check_of(name)(value)
        except ValidationError as error:
            faults += [
                DocumentFault((name, *deeper.loc), deeper.message) for deeper in faults_of(error)
            ]
        except ValueError as error:
            faults.append(DocumentFault((name,), str(error)))
    if faults:
        refuse(*faults)


_TIME = {"type": "string", "pattern": f"^{WITH_UNITS}$"}


def _time(**bounds: float) -> WithJsonSchema:
    return WithJsonSchema({"anyOf": [{"type": "number", **bounds}, _TIME]})


def _whole(**bounds: int) -> WithJsonSchema:
    return WithJsonSchema({"type": "integer", **bounds})


_AMOUNT: dict[str, Any] = {"type": "integer", "minimum": 0, "maximum": MOST}
_AMOUNTS: dict[str, Any] = {"type": "object", "additionalProperties": _AMOUNT}

Seconds = Annotated[int, BeforeValidator(seconds), _time()]
"""Seconds in the file, or a text with units such as `2h`; whole milliseconds in the model."""
Duration = Annotated[int, BeforeValidator(_duration), _time(minimum=0)]
"""As `Seconds`, at least 0."""
MinRuntime = Annotated[
    int,
    BeforeValidator(lambda value: AUTO if value == AUTOMATIC else _duration(value)),
    WithJsonSchema({"anyOf": [{"type": "number", "minimum": 0}, _TIME, {"const": AUTOMATIC}]}),
]
"""As `Duration`, or `auto`."""
Grace = Annotated[
    int,
    BeforeValidator(_grace),
    WithJsonSchema({"anyOf": [{"type": "number", "minimum": 0}, _TIME, {"type": "boolean"}]}),
]
"""As `Duration`, or a switch: true is `GRACE`."""


def _windows(value: object) -> object:
    """Read opening hours; return them as a pool keeps them. Raises ValueError."""
    if value in (None, [], ()):
        return ()
    from slotq_core.wire.capacity.opening_hours import defined  # Few pools have hours.

    try:
        return defined("", value)
    except InvalidRequest as error:
        raise ValueError(error.message.removeprefix("pool '': ")) from None


_WINDOW = {
    "type": "object",
    "properties": {
        "days": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
        "from": {"type": "string"},
        "to": {"type": "string"},
        "zone": {"type": "string"},
    },
    "required": ["days", "from", "to", "zone"],
    "additionalProperties": False,
}
Windows = Annotated[
    tuple[str, ...],
    BeforeValidator(_windows),
    WithJsonSchema({"type": "array", "items": {"anyOf": [{"type": "string"}, _WINDOW]}}),
]
"""When a pool is open (`wire.capacity.opening_hours`)."""


def _reservations(value: object) -> object:
    """Read reservations; return them in their one form. Raises ValueError."""
    if value in (None, [], ()):
        return ()
    from slotq_core.wire.capacity.reservations import as_json, defined  # Few pools have some.

    try:
        return tuple(as_json(reservation) for reservation in defined("", value))
    except InvalidRequest as error:
        raise ValueError(error.message.removeprefix("pool '': reservations ")) from None


_MOMENT = {"anyOf": [{"type": "string"}, {"type": "number", "minimum": 0}]}
_RESERVATION = {
    "type": "object",
    "properties": {
        "project": {"type": "string"},
        "slots": {"type": "integer", "minimum": 1},
        "begins": _MOMENT,
        "ends": _MOMENT,
        "zone": {"type": "string"},
    },
    "required": ["project", "slots", "begins", "ends"],
    "additionalProperties": False,
}
Reservations = Annotated[
    tuple[dict[str, Any], ...],
    BeforeValidator(_reservations),
    WithJsonSchema({"type": "array", "items": _RESERVATION}),
]
"""Slots that are set aside for projects (`wire.capacity.reservations`)."""

HalfLife = Annotated[
    int, BeforeValidator(_half_life), _time(minimum=DAY // 1000, maximum=90 * DAY // 1000)
]
"""As `Seconds`, from 1 day to 90 days."""
Influence = Annotated[
    int, BeforeValidator(_influence), WithJsonSchema({"type": "number", "minimum": 0, "maximum": 1})
]
"""A number from 0 to 1 in the file; hundredths in the model."""
Period = Annotated[int, BeforeValidator(period), _time(exclusiveMinimum=0)]
"""As `Seconds`, more than 0."""
_SLOT_HOURS: dict[str, Any] = {
    "type": "number",
    "exclusiveMinimum": 0,
    "maximum": MOST_SLOT_HOURS,
}
SlotHours = Annotated[int, BeforeValidator(_slot_hours), WithJsonSchema(_SLOT_HOURS)]
"""Slot-hours in the file, more than 0; slots multiplied by ms in the model."""
Count = Annotated[int, BeforeValidator(whole(0, MOST)), _whole(minimum=0, maximum=MOST)]
Positive = Annotated[int, BeforeValidator(whole(1, MOST)), _whole(minimum=1, maximum=MOST)]
GpuAmount = Annotated[
    int,
    BeforeValidator(_gpus),
    WithJsonSchema({"type": "number", "minimum": 0, "maximum": gpus_number(MOST_GPUS)}),
]
"""A number of GPUs in the file, `2` or `0.25`; hundredths in the model."""
Value = Annotated[
    int, BeforeValidator(whole(-1_000_000, 1_000_000)), _whole(minimum=-(10**6), maximum=10**6)
]
"""A priority."""
Name = Annotated[str, BeforeValidator(text), WithJsonSchema({"type": "string", "minLength": 1})]
MaybeName = Annotated[str, BeforeValidator(_maybe_text), WithJsonSchema({"type": "string"})]
"""A name, or the empty string for none."""
_NAMED = {"type": "string", "enum": [*WEIGHTS]}
_WEIGHTS = {"type": "object", "additionalProperties": {"anyOf": [_AMOUNT, _NAMED]}}
Weight = Annotated[
    int | dict[str, int] | None,
    BeforeValidator(_weight),
    WithJsonSchema({"anyOf": [_AMOUNT, _NAMED, _WEIGHTS]}),
]
"""`2`, `High`, or by resource: `{gpus: High, slots: 1}`."""
_TEXT = {"type": "string", "minLength": 1, "maxLength": LONGEST_PATTERN}
Pattern = Annotated[str, BeforeValidator(_pattern), WithJsonSchema(_TEXT)]
"""A text in which `*` matches any text."""
Principal = Annotated[str, BeforeValidator(_principal), WithJsonSchema(_TEXT)]
"""A pattern of callers' ARNs."""
SessionRole = Annotated[str, BeforeValidator(_session_role), WithJsonSchema(_TEXT)]
"""A pattern of the roles whose sessions the identity provider names."""
Fields = Annotated[
    dict[str, Any], BeforeValidator(request_fields), WithJsonSchema({"type": "object"})
]
"""Fields of CreateTrainingJob, by path."""
Flag = Annotated[bool, BeforeValidator(_flag), WithJsonSchema({"type": "boolean"})]
Capacity = Annotated[
    Demand, PlainValidator(vector(0, 0)), WithJsonSchema({"anyOf": [_AMOUNT, _AMOUNTS]})
]
"""Slots, or amounts by resource: `2`, `{slots: 2, gpus: 16}`."""
_PROPERTY = {"anyOf": [_AMOUNT, {"type": "string", "pattern": traits.PATTERN}, {"type": "boolean"}]}
Properties = Annotated[
    Demand,
    PlainValidator(_properties),
    WithJsonSchema({"type": "object", "additionalProperties": _PROPERTY}),
]
"""Properties of a pool's slots: `{mem_per_gpu_in_GiB: 16}`, or `16G`."""
_BY_CLASS = {"type": "object", "additionalProperties": _AMOUNTS}
_BY_SCOPE = {"type": "object", "additionalProperties": {"anyOf": [_AMOUNT, _AMOUNTS]}}
Quota = Annotated[
    int | dict[str, Any],
    BeforeValidator(_quota),
    WithJsonSchema({"anyOf": [_AMOUNT, _BY_SCOPE]}),
]
"""`4` (slots over all pools together), `{slots: 4, gpus: 16}` (likewise), `{p5: 4}` or `{p5:
{slots: 4, gpus: 16}}` (pool by pool). `models.scopes` distinguishes them."""
UserLimits = Annotated[
    dict[str, dict[str, int]], BeforeValidator(_user_limits), WithJsonSchema(_BY_CLASS)
]
"""`{p5: {HIGH: 4}}`: slots that a user may hold, by pool and class."""
