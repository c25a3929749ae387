"""The members of a group that share a template: each says only in what it differs.

A member is a JSON Merge Patch (RFC 7396) of the template: objects merge key by key, null removes a
key, and anything else replaces. So a thousand members of one sweep are a small body.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from slotq_core.errors import InvalidRequest
from slotq_core.wire.body import MAX_BODY

LARGEST_EXPANDED = 100_000_000
"""The most bytes of all members together, each with its template: a Lambda function has to hold
them."""

Json = Mapping[str, Any]


def expanded(template: Json | None, members: Sequence[Json]) -> list[dict[str, Any]]:
    """The members as whole requests. Raises InvalidRequest if they are too large together."""
    if template is None:
        return [dict(member) for member in members]
    size = len(json.dumps(template))
    if size > MAX_BODY or size * len(members) > LARGEST_EXPANDED:
        raise InvalidRequest(
            f"the template has {size:,} bytes, which is too much for {len(members):,} members: "
            "move large values to S3",
            field="template",
        )
    return [merged(template, member) for member in members]


def merged(whole: Json, patch: Json) -> dict[str, Any]:
    """The object with the patch merged into it. Neither is changed."""
    found = dict(whole)
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        elif isinstance(value, Mapping):
            own = found.get(key)
            found[key] = merged(own if isinstance(own, Mapping) else {}, value)
        else:
            found[key] = value
    return found


def compacted(requests: Sequence[Json]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A template and members that expand to these requests. The requests hold no null."""
    template = _common(requests)
    return template, [_difference(template, request) for request in requests]


def _common(objects: Sequence[Json]) -> dict[str, Any]:
    """What all of the objects share."""
    first, *others = objects
    shared: dict[str, Any] = {}
    for key, value in first.items():
        if not all(key in other for other in others):
            continue
        rest = [other[key] for other in others]
        if isinstance(value, Mapping) and all(isinstance(each, Mapping) for each in rest):
            shared[key] = _common([value, *rest])
        elif all(each == value and type(each) is type(value) for each in rest):
            shared[key] = value
    return shared


def _difference(template: Json, whole: Json) -> dict[str, Any]:
    return dict(_differences(template, whole))


def _differences(template: Json, whole: Json) -> Iterator[tuple[str, Any]]:
    for key, value in whole.items():
        own = template.get(key)
        if isinstance(value, Mapping) and isinstance(own, Mapping):
            if patch := _difference(own, value):
                yield key, patch
        elif key not in template:
            yield key, value
