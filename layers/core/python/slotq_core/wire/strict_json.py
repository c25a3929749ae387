"""Strict JSON for untrusted input: what RFC 8259 calls interoperable, within bounds.

Python's reader accepts more, and each excess causes trouble elsewhere. Readers differ on which of
two equal keys counts. Not every writer can write NaN, half a surrogate pair or an integer of a
thousand digits. Nesting as deep as one reader can follow is too deep for another.
"""

from __future__ import annotations

import json
from math import isfinite
from typing import Any

DEEPEST = 32
"""The most levels of lists and objects. A CreateTrainingJob request has six."""

_DIGITS = 20
"""The most characters of an integer; enough for 64 bits."""


class NotStrict(ValueError):
    """Not every reader takes the text as JSON. The message says why, and may quote the start of a
    key."""


def parse(text: str | bytes) -> Any:
    """Parse the text. Raises NotStrict, or another ValueError if the text is not JSON."""
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
            raise NotStrict(f"the key {key[:40]!a} occurs twice")
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
    raise NotStrict(f"{text} is not a number")


def _check(value: Any, levels: int) -> None:
    """Raises NotStrict if the value nests deeper than `levels`, or contains text that is not
    Unicode."""
    if isinstance(value, str):
        _check_text(value)
    elif isinstance(value, dict | list):
        if not levels:
            raise _too_deep()
        for part in value:
            _check(part, levels - 1)
        if isinstance(value, dict):
            for part in value.values():
                _check(part, levels - 1)


def _check_text(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise NotStrict("a text is not valid Unicode: it has half a surrogate pair") from None


def _too_deep() -> NotStrict:
    return NotStrict(f"it nests deeper than {DEEPEST} levels")
