"""One setting of a configuration's document, named by its path: `fair_share.half_life`, or
`pools.p5.min_runtime` where a section has named entries."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, get_args

from slotq.errors import InvalidRequest
from slotq_core.spelling import did_you_mean
from slotq_core.wire.document.contents import ConfigurationDocument


def with_setting(document: Mapping[str, Any], path: str, value: object) -> dict[str, Any]:
    """The document with this setting; None: its default. Raises InvalidRequest for a path that
    names no section, no entry of it or no key; what is wrong below, reading the document says."""
    first, *keys = path.split(".")
    if first not in ConfigurationDocument.model_fields:
        near = did_you_mean(first, [*ConfigurationDocument.model_fields])
        raise InvalidRequest(f"{path}: a configuration has no section '{first}'{near}")
    after = deepcopy(dict(document))
    place: dict[str, Any] = after.setdefault(first, {})
    if keys and _has_entries(first):
        name, *keys = keys
        entries = {str(entry.get("name", "")): entry for entry in after.get(first) or ()}
        if name not in entries:
            near = did_you_mean(name, entries)
            raise InvalidRequest(f"{path}: section '{first}' has no entry '{name}'{near}")
        place = entries[name]
    if not keys or not all(keys):
        raise InvalidRequest(f"{path}: name a setting, such as fair_share.half_life")
    for key in keys[:-1]:
        inner = place.get(key)
        place[key] = inner if isinstance(inner, dict) else {}
        place = place[key]
    if value is None:
        place.pop(keys[-1], None)
    else:
        place[keys[-1]] = value
    return after


def _has_entries(section: str) -> bool:
    """Whether a section has entries with names."""
    kind, *_ = get_args(ConfigurationDocument.model_fields[section].annotation) or [None]
    return isinstance(kind, type) and "name" in getattr(kind, "model_fields", {})
