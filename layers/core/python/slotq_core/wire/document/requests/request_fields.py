"""Fields of CreateTrainingJob in a document: those that a project may prescribe, checked against
SageMaker's own structure.

A field inside another is named by its path: `ResourceConfig.VolumeKmsKeyId`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from slotq_core.names import MAX_TAGS
from slotq_core.spelling import similar_name
from slotq_core.wire.document.faults import DocumentFault, refuse, said
from slotq_core.wire.training.field_paths import paths_ending, shape_at
from slotq_core.wire.training.training_request import (
    MOST_FAULTS,
    known_shape,
    value_faults,
)

TAGS = "Tags"
LONGEST = 20_000
"""The most characters of all values together. Every job of the project stores them."""

_QUEUE_DECIDES = "the pools decide this; leave it out"
_NOT_PRESCRIBED: Mapping[str, str] = {
    "TrainingJobName": "every job has a name of its own; leave this out",
    "ResourceConfig": "name fields of it, for example ResourceConfig.VolumeKmsKeyId",
    "ResourceConfig.InstanceType": _QUEUE_DECIDES,
    "ResourceConfig.InstanceCount": _QUEUE_DECIDES,
    "ResourceConfig.InstanceGroups": _QUEUE_DECIDES,
    "ResourceConfig.InstancePreferences": _QUEUE_DECIDES,
    "ResourceConfig.SelectedInstanceType": _QUEUE_DECIDES,
    "ResourceConfig.SelectedInstanceCount": _QUEUE_DECIDES,
}
_OF_THE_QUEUE = ("slotq:", "aws:")
_PRIORITY = "priority"
_TAG = re.compile(r"[\w \u00a0.:/=+@-]*")
_LONGEST_KEY, _LONGEST_VALUE = 128, 256


def request_fields(value: object) -> dict[str, Any]:
    """Read fields of CreateTrainingJob by path. Raises ValueError, and ValidationError with every
    fault, each at its path."""
    if not isinstance(value, dict):
        raise ValueError(f"fields of CreateTrainingJob are needed, not {said(value)}")
    every = (fault for path, own in value.items() for fault in _faults(path, own))
    faults = [*islice(every, MOST_FAULTS + 1)]
    if len(str(value)) > LONGEST:
        faults.append(DocumentFault((), f"at most {LONGEST:,} characters are possible"))
    if faults:
        refuse(*faults)
    return dict(value)


def overlaps(paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Fields that are named twice: the inner path, and the outer one."""
    named = set(paths)
    for path in sorted(named):
        parts = path.split(".")
        for length in range(1, len(parts)):
            outer = ".".join(parts[:length])
            if outer in named:
                yield path, outer


def _faults(path: object, value: Any) -> Iterator[DocumentFault]:
    if not isinstance(path, str) or not path:
        yield DocumentFault((), f"names of fields are needed as keys, not {said(path)}")
        return
    shape = shape_at(path)
    if path in _NOT_PRESCRIBED:
        yield DocumentFault((path,), _NOT_PRESCRIBED[path])
    elif shape is None:
        yield DocumentFault((path,), f"CreateTrainingJob has no such field{_hint(path)}")
    else:
        for fault in value_faults("", value, shape):
            inner = tuple(fault.path.split(".")) if fault.path else ()
            yield DocumentFault((path, *inner), fault.message)
        if path == TAGS and isinstance(value, list):
            yield from _tag_faults(value)


def _hint(path: str) -> str:
    nested = [*paths_ending(path)]
    if len(nested) == 1:
        return f"; write {nested[0]}"
    outer, _, inner = path.rpartition(".")
    above = shape_at(outer) if outer else None
    known: Iterable[str] = () if above is None and outer else (above or known_shape()).members
    near = similar_name(inner, known)
    return f"; did you mean {f'{outer}.{near}' if outer else near}?" if near else ""


def _tag_faults(tags: list[Any]) -> Iterator[DocumentFault]:
    if len(tags) > MAX_TAGS:
        yield DocumentFault((TAGS,), f"at most {MAX_TAGS} tags are possible")
    seen: set[str] = set()
    for number, tag in enumerate(tags):
        if not isinstance(tag, dict):
            continue
        key, value = tag.get("Key"), tag.get("Value")
        if isinstance(key, str):
            for wrong in _wrong_key(key, seen):
                yield DocumentFault((TAGS, number, "Key"), wrong)
            seen.add(key)
        if isinstance(value, str) and not (len(value) <= _LONGEST_VALUE and _TAG.fullmatch(value)):
            what = (
                f"a tag's value has at most {_LONGEST_VALUE} letters, digits, spaces and _.:/=+-@"
            )
            yield DocumentFault((TAGS, number, "Value"), what)


def _wrong_key(key: str, seen: Iterable[str]) -> Iterator[str]:
    if key == _PRIORITY or key.lower().startswith(_OF_THE_QUEUE):
        yield f"a project cannot set the tag '{key[:40]}': it is a job's own, the queue's or AWS's"
    elif not (0 < len(key) <= _LONGEST_KEY and _TAG.fullmatch(key)):
        yield f"a tag's key has 1 to {_LONGEST_KEY} letters, digits, spaces and _.:/=+-@"
    elif key in seen:
        yield f"the tag '{key}' occurs twice"
