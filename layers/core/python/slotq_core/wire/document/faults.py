"""The faults of a document: where they are, and what would be right.

The data model (`sections`) or a check across sections (`checks`) finds them, and all are reported
together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, NoReturn

from pydantic import ValidationError
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from slotq_core.errors import InvalidRequest
from slotq_core.wire.training_request import MOST_FAULTS, refusal
from slotq_core.wire.training_request import Fault as BodyFault

Loc = tuple[int | str, ...]
"""The path to a value: keys and list indexes."""

Keys = Mapping[str, Sequence[str]]
"""The keys of each section's entries (`pools`, `pools.changes`). The empty name maps to the
sections."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault. `loc` is relative to where the fault is raised."""

    loc: Loc
    message: str


def refuse(*faults: Fault) -> NoReturn:
    """Raise faults in a validator of the data model, which adds the path to the section."""
    raise ValidationError.from_exception_data(
        "document",
        [
            InitErrorDetails(
                type=PydanticCustomError("fault", "{message}", {"message": fault.message}),
                loc=fault.loc,
                input=None,
            )
            for fault in faults
        ],
    )


def faults_of(error: ValidationError, keys: Keys | None = None, what: str = "") -> list[Fault]:
    """The faults that the data model found. `what`: the whole document's name in a message. Those
    beyond `MOST_FAULTS`, which nobody is shown, do not say what was meant: of a hostile document
    that would take seconds."""
    found = error.errors(include_url=False)
    return [
        Fault(
            tuple(each["loc"]), _message(each, (keys or {}) if number < MOST_FAULTS else {}, what)
        )
        for number, each in enumerate(found)
    ]


def unknown(where: Loc, what: str, name: str, known: Iterable[str]) -> Fault:
    return Fault(where, f"there is no {what} '{name}'; these exist: {listed(sorted(known))}")


_LONGEST_PATH, _LONGEST_MESSAGE = 200, 500
"""The most characters of a fault. A key from the document may be part of it."""


def refused(faults: Iterable[Fault]) -> InvalidRequest:
    """The error that lists all faults by their paths."""
    return refusal(
        [
            BodyFault(
                path=spelled(each.loc)[:_LONGEST_PATH], message=each.message[:_LONGEST_MESSAGE]
            )
            for each in faults
        ]
    )


def spelled(loc: Loc) -> str:
    """`jobs[3].slots`"""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc)
    return text.removeprefix(".")


def said(value: object) -> str:
    """A value of the file, shortened for a message."""
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a map"
    if isinstance(value, list | tuple):
        return "a list"
    text = f"'{value}'" if isinstance(value, str) else str(value)
    return text if len(text) <= 40 else text[:37] + "…"


def listed(names: Iterable[str], none: str = "none") -> str:
    """Names for a message: at most twelve, then a count."""
    every = list(names)
    more = f" and {len(every) - 12} more" if len(every) > 12 else ""
    return ", ".join(every[:12]) + more if every else none


def _message(found: ErrorDetails, keys: Keys, what: str) -> str:
    match found["type"]:
        case "extra_forbidden":
            return _unknown_key(found["loc"], keys, what)
        case "missing":
            return "this key is needed"
        case "model_type" | "model_attributes_type" | "dict_type":
            return f"a map of keys is needed, not {said(found['input'])}"
        case "tuple_type" | "list_type":
            return f"a list is needed, not {said(found['input'])}"
        case "enum":
            wanted = found.get("ctx", {}).get("expected", "")
            return f"one of {wanted} is needed, not {said(found['input'])}"
    return found["msg"].removeprefix("Value error, ")


def _unknown_key(loc: Sequence[Any], keys: Keys, what: str) -> str:
    section = ".".join(part for part in loc[:-1] if isinstance(part, str))
    known = keys.get(section, ())
    close = get_close_matches(str(loc[-1]), known, n=1)
    hint = f"did you mean '{close[0]}'? " if close else ""
    here = f"an entry of {section}" if section else what
    return f"there is no such key; {hint}{here} takes {', '.join(known)}"
