"""What is wrong with a scenario: where, and what would be right.

Every fault is found by the data model (`sections`, `scenario`) or by a check across sections
(`checks`); all of them are told in one form, `FILE:LINE: key: message`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

from pydantic import ValidationError
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

Loc = tuple[int | str, ...]
"""The way to a value: keys and places in lists."""

Keys = Mapping[str, Sequence[str]]
"""By section, which keys its entries take (`pools`, `pools.changes`); by the empty name, which
sections there are."""

_SHOWN = 20
"""So many faults of one file are told."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong. `loc` is seen from where the fault is raised."""

    loc: Loc
    message: str


def refuse(*faults: Fault) -> NoReturn:
    """Raise the faults in a validator of the data model, which knows the way to there."""
    raise ValidationError.from_exception_data(
        "scenario",
        [
            InitErrorDetails(
                type=PydanticCustomError("fault", "{message}", {"message": fault.message}),
                loc=fault.loc,
                input=None,
            )
            for fault in faults
        ],
    )


def faults_of(error: ValidationError, keys: Keys | None = None) -> list[Fault]:
    """What the data model found."""
    return [
        Fault(tuple(found["loc"]), _message(found, keys or {}))
        for found in error.errors(include_url=False)
    ]


Place = tuple[Path, int, str]
"""A file, a line of it, and what the key is called there."""


def told(faults: Iterable[Fault], where: Callable[[Loc], Place]) -> str:
    """A line for each fault, in the order of the files' lines."""
    placed = sorted((*where(fault.loc), fault.message) for fault in faults)
    lines = [
        f"{path}:{line}: {key + ': ' if key else ''}{message}"
        for path, line, key, message in placed[:_SHOWN]
    ]
    if len(placed) > _SHOWN:
        lines.append(f"and {len(placed) - _SHOWN} more")
    return "\n".join(lines)


def spelled(loc: Loc) -> str:
    """`jobs[3].slots`"""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc)
    return text.removeprefix(".")


def said(value: object) -> str:
    """A value of the file, short enough for a message."""
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a map"
    if isinstance(value, list | tuple):
        return "a list"
    text = f"'{value}'" if isinstance(value, str) else str(value)
    return text if len(text) <= 40 else text[:37] + "…"


def listed(names: Iterable[str], none: str = "none") -> str:
    """Names for a message, a few of them."""
    every = list(names)
    more = f" and {len(every) - 12} more" if len(every) > 12 else ""
    return ", ".join(every[:12]) + more if every else none


def _message(found: ErrorDetails, keys: Keys) -> str:
    match found["type"]:
        case "extra_forbidden":
            return _unknown_key(found["loc"], keys)
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


def _unknown_key(loc: Sequence[Any], keys: Keys) -> str:
    section = ".".join(part for part in loc[:-1] if isinstance(part, str))
    known = keys.get(section, ())
    close = get_close_matches(str(loc[-1]), known, n=1)
    hint = f"did you mean '{close[0]}'? " if close else ""
    here = f"an entry of {section}" if section else "a scenario"
    return f"there is no such key; {hint}{here} takes {', '.join(known)}"
