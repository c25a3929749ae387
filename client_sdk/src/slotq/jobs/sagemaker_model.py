"""The structure of a CreateTrainingJob request, as the botocore of this machine has it."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import botocore.session

from slotq_core.wire.training_request import Shape

KINDS = {"long": "integer", "double": "float"}
"""botocore's kinds of values that are another's to a request in JSON."""
_JAVA_CLASSES = {
    r"\p{L}": r"\w",
    r"\p{N}": r"\w",
    r"\p{Z}": " \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000",
    r"\p{Alnum}": "a-zA-Z0-9",
}
"""What AWS's patterns have and Python's lack, and what stands for it here: no less."""
_INSTANCE_TYPE = r"ml\.[a-z0-9-]+\.[a-z0-9-]+"


@cache
def training_request() -> Shape:
    """With every bound that botocore knows."""
    return shape_of(input_shape())


def input_shape() -> Any:
    """botocore's own object for it."""
    service = botocore.session.Session().get_service_model("sagemaker")
    return service.operation_model("CreateTrainingJob").input_shape


def shape_of(shape: Any) -> Shape:
    """botocore's shape, as the checks of a request take it."""
    kind, bounds = KINDS.get(shape.type_name, shape.type_name), shape.metadata
    members = shape.members if kind == "structure" else {}
    return Shape(
        kind=kind,
        members={name: shape_of(member) for name, member in members.items()},
        required=frozenset(bounds.get("required", ())),
        item=_item(shape, kind),
        key=shape_of(shape.key) if kind == "map" else None,
        low=bounds.get("min"),
        high=bounds.get("max"),
        values=tuple(bounds.get("enum", ())),
        **_form(shape.name, bounds.get("pattern")),
    )


def _item(shape: Any, kind: str) -> Shape | None:
    match kind:
        case "list":
            return shape_of(shape.member)
        case "map":
            return shape_of(shape.value)
    return None


def _form(name: str, pattern: str | None) -> dict[str, Any]:
    """Of instance types the form alone counts: AWS has new ones before a user has a new botocore.
    The queue refuses those that no pool has, and names the ones that there are."""
    if name.endswith("InstanceType"):
        form = "be an instance type such as ml.p5.48xlarge"
        return {"pattern": _INSTANCE_TYPE, "form": form, "others": True}
    return {"pattern": python_pattern(pattern), "form": f"have the form {pattern}"}


@cache
def python_pattern(pattern: str | None) -> str | None:
    """A pattern of AWS's, which are Java's, for Python; None where that cannot be said in it."""
    if pattern is None:
        return None
    for theirs, ours in _JAVA_CLASSES.items():
        pattern = pattern.replace(theirs, ours)
    try:
        re.compile(pattern)
    except re.error:
        return None
    return pattern
