"""The types of values that only scenarios have: what each accepts, and the message for others."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, PlainValidator

from slotq_core.model.demand import Demand
from slotq_core.wire.document.faults import said
from slotq_core.wire.document.values import check_entries, period, seconds, vector

FAULT, NO_CAPACITY, NO_ROLE = FAILURES = ("fault", "no_capacity", "no_role")
"""The failures of an attempt that never runs."""


def _failure(value: object) -> int | str | None:
    if value is None or value in FAILURES:
        return value
    try:
        return period(value)
    except ValueError:
        raise ValueError(
            "seconds of running after which the attempt fails, one of "
            f"{', '.join(FAILURES)}, or null is needed, not {said(value)}"
        ) from None


def _moment(value: object) -> int | str:
    if value == "end":
        return "end"
    try:
        return seconds(value)
    except ValueError:
        message = f"a number of seconds, or end, is needed, not {said(value)}"
        raise ValueError(message) from None


def _priority(value: object) -> int | str:
    if isinstance(value, str) and value:
        return value
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > 1_000_000:
        raise ValueError(
            "the name of a class, or a whole number from -1,000,000 to 1,000,000, is needed, "
            f"not {said(value)}"
        )
    return value


def _parts(value: object) -> dict[str, Demand]:
    if not isinstance(value, dict) or len(value) < 2:
        raise ValueError(f"a map of two or more pools is needed, not {said(value)}")
    amounts_of = vector(0, 1)
    check_entries(value, lambda _: amounts_of)
    return {name: amounts_of(amounts) for name, amounts in value.items()}


Failure = Annotated[int | str | None, BeforeValidator(_failure)]
"""The failure of one attempt."""
Moment = Annotated[int | Literal["end"], BeforeValidator(_moment)]
Priority = Annotated[int | str, BeforeValidator(_priority)]
"""A number, or the name of a class."""
SomeCapacity = Annotated[Demand, PlainValidator(vector(1, 1))]
"""The capacity of a pool: slots, or amounts by resource. At least 1 of each."""
Vector = Annotated[Demand, PlainValidator(vector(0, 1))]
"""The demand of a job."""
Parts = Annotated[dict[str, Demand], PlainValidator(_parts)]
"""The demand of a job in several pools at once: `{p: 2, q: {slots: 1, gpus: 8}}`."""
Amounts = Annotated[Demand, PlainValidator(vector(1, 0))]
"""The new capacity of some resources."""
Use = Annotated[Demand, PlainValidator(vector(0, 0))]
"""The part of a pool that is in use."""
