"""A job's settings as tags of its request, and back. All of it follows from the declaration of
`JobSettings`: the tag's key, and the values that it takes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import Field, fields
from enum import StrEnum
from typing import Any

from slotq_core.errors import InvalidRequest
from slotq_core.gpu_amounts import gpus_number, read_gpus
from slotq_core.model.jobs import SEMI, JobSettings, Preemptible
from slotq_core.spelling import as_known

_SHOWN = 40
"""The most characters of a wrong value in a message."""

PREEMPTIBLE: Mapping[str, Preemptible] = {"true": True, "false": False, SEMI: SEMI}
"""Whether a job may be evicted, by the tag's word."""
PREEMPTIBLE_WORDS = f"true, false or {SEMI}"

_FIELDS: Mapping[str, Field[Any]] = {field.name: field for field in fields(JobSettings)}

TAGS: Mapping[str, str] = {
    name: field.metadata.get("tag", "slotq:" + name.replace("_", "-"))
    for name, field in _FIELDS.items()
}
"""The tag's key of each setting."""


MOST: Mapping[str, int] = {
    name: field.metadata["most"] // (1000 if field.type == "Duration" else 1)
    for name, field in _FIELDS.items()
    if "most" in field.metadata
}
"""The largest value of each number, of a duration in seconds. The smallest is 0."""

PRIORITY_LIMIT = 1_000_000
"""A priority is from the negative of this to this."""


def read_settings(tags: Mapping[str, str]) -> dict[str, Any]:
    """The settings in these tags, by field; those without a tag have their default. Raises
    ValueError with what the tag takes."""
    return {
        name: _read(field, tags[TAGS[name]])
        for name, field in _FIELDS.items()
        if TAGS[name] in tags
    }


def written(name: str, value: Any) -> str:
    """The tag's value for a setting as people give it: durations in seconds. Raises InvalidRequest
    with the setting's name."""
    default = _FIELDS[name].default
    if _FIELDS[name].type == "Gpus":
        try:
            return str(gpus_number(read_gpus(value)))
        except ValueError as error:
            raise InvalidRequest(f"{name}: {error}", field=name) from None
    if _FIELDS[name].type == "Preemptible" and str(value).lower() not in PREEMPTIBLE:
        raise InvalidRequest(f"{name} is one of {PREEMPTIBLE_WORDS}, not {value!r}", field=name)
    if isinstance(default, bool):
        return str(value).lower()
    if isinstance(default, StrEnum):
        words = type(default)
        known = as_known(str(value), words)
        if known is None:
            raise InvalidRequest(f"{name} is one of {', '.join(words)}, not {value!r}", field=name)
        return str(known)
    return str(value)


def _read(declared: Field[Any], text: str) -> Any:
    key, default = TAGS[declared.name], declared.default
    if declared.type == "Preemptible":
        word = (text or str(default)).lower()  # As below.
        if word not in PREEMPTIBLE:
            raise ValueError(f"the tag '{key}' takes {PREEMPTIBLE_WORDS}, not '{text[:_SHOWN]}'")
        return PREEMPTIBLE[word]
    if isinstance(default, bool):
        word = (text or str(default)).lower()  # Version 0.2.0 took an empty value for no tag.
        if word not in {"true", "false"}:
            raise ValueError(f"the tag '{key}' takes true or false, not '{text[:_SHOWN]}'")
        return word == "true"
    if isinstance(default, StrEnum):
        words = type(default)
        if text not in tuple(words):
            raise ValueError(
                f"the tag '{key}' takes one of {', '.join(words)}, not '{text[:_SHOWN]}'"
            )
        return words(text)
    if declared.type == "Gpus":
        try:
            return read_gpus(text)
        except ValueError as error:
            raise ValueError(f"the tag '{key}': {error}") from None
    number = integer(key, text, 0, MOST[declared.name])
    return 1000 * number if declared.type == "Duration" else number


def integer(key: str, text: str, low: int, high: int, *, or_else: str = "") -> int:
    """A tag's whole number. Raises ValueError, with what else the tag takes."""
    if not re.fullmatch(r"[+-]?[0-9]{1,9}", text) or not low <= int(text) <= high:
        raise ValueError(
            f"the tag '{key}' takes {or_else}an integer from {low:,} to {high:,}, not "
            f"'{text[:_SHOWN]}'"
        )
    return int(text)
