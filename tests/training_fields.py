"""Writes the core's tables of the fields of CreateTrainingJob and CreateProcessingJob requests:
`make training-fields`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from slotq.jobs.sagemaker_model import KINDS, input_shape

_HEAD = '''\
"""The fields of a {operation} request: names, types, and which are required.

Generated from botocore {version} by `make training-fields`; do not edit. Admission does not ask
botocore itself: loading SageMaker's service model takes longer than the rest of a submission.
"""

from __future__ import annotations

from collections.abc import Mapping
'''


def notation(shape: Any) -> str:
    """`string`, `Channel`, `list Channel`, `map string`."""
    match shape.type_name:
        case "structure":
            return str(shape.name)
        case "list":
            return f"list {notation(shape.member)}"
        case "map":
            return f"map {notation(shape.value)}"
        case kind:
            return KINDS.get(kind, kind)


def structures(shape: Any) -> Iterator[Any]:
    """Every structure that it has, itself first."""
    match shape.type_name:
        case "structure":
            yield shape
            for member in shape.members.values():
                yield from structures(member)
        case "list":
            yield from structures(shape.member)
        case "map":
            yield from structures(shape.value)


def _tuple(name: str, members: list[str]) -> list[str]:
    """As ruff writes it."""
    if len(members) == 1:
        return [f'    "{name}": ("{members[0]}",),']
    return [f'    "{name}": (', *(f'        "{member}",' for member in members), "    ),"]


def page(version: str, request: Any) -> str:
    """The module's text."""
    found = {shape.name: shape for shape in structures(request)}
    operation = next(iter(found)).removesuffix("Request")
    lines = [_HEAD.format(version=version, operation=operation)]
    lines.append("STRUCTURES: Mapping[str, Mapping[str, str]] = {")
    for name, shape in found.items():
        members = [f'        "{key}": "{notation(it)}",' for key, it in shape.members.items()]
        lines += [f'    "{name}": {{', *members, "    },"]
    lines += ["}", '"""By name; the request first."""', ""]
    lines.append("REQUIRED: Mapping[str, tuple[str, ...]] = {")
    for name, shape in found.items():
        if needed := shape.required_members:
            lines += _tuple(name, needed)
    lines += ["}", '"""The fields that a structure must have."""']
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    import botocore

    print(page(botocore.__version__, input_shape(sys.argv[1])), end="")
