"""JSON from strangers, read strictly: what RFC 8259 calls interoperable, and within bounds.

Python's own reader takes more than that, and each excess comes out elsewhere: of a key that is
there twice somebody on the way may have read the other one; NaN, half a surrogate pair and an
integer of a thousand digits cannot be written again everywhere; what nests as deep as the reader
can follow is too deep for the next one.
"""

from __future__ import annotations

import json
from math import isfinite
from typing import Any

DEEPEST = 32
"""Levels of lists and objects. A CreateTrainingJob request has six."""

_DIGITS = 20
"""Enough for every integer of 64 bits."""


class NotStrict(ValueError):
    """It is JSON to some readers and not to others. Says why; may quote the head of a key."""


def parse(text: str | bytes) -> Any:
    """The value. Raises NotStrict, or any other ValueError where it is no JSON at all."""
    try:
        value = json.loads(
            text,
            object_pairs_hook=_object,
            parse_int=_integer,
            parse_float=_float,
            parse_constant=_constant,
        )
    except RecursionError:
        raise _too_deep() from None
    _check(value, DEEPEST)
    return value


def _object(members: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in members:
        if key in found:
            raise NotStrict(f"the key {key[:40]!a} is there twice")
        found[key] = value
    return found


def _integer(text: str) -> int:
    if len(text) > _DIGITS:
        raise NotStrict("a number is too large")
    return int(text)


def _float(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise NotStrict("a number is too large")
    return value


def _constant(text: str) -> None:
    raise NotStrict(f"{text} is no number")


def _check(value: Any, levels: int) -> None:
    """That it nests no deeper than so many levels, and that all of its text can be written."""
    if isinstance(value, str):
        _check_text(value)
    elif isinstance(value, dict | list):
        if not levels:
            raise _too_deep()
        for each in value:
            _check(each, levels - 1)
        if isinstance(value, dict):
            for each in value.values():
                _check(each, levels - 1)


def _check_text(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise NotStrict("a text is not Unicode: it has half a surrogate pair") from None


def _too_deep() -> NotStrict:
    return NotStrict(f"it nests deeper than {DEEPEST} levels")
