"""Check a CreateTrainingJob request against the botocore of this machine before it is sent.

Without the check, SageMaker would find a fault only when the job starts, perhaps hours later.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import botocore
import botocore.session

from slotq.errors import InvalidRequest
from slotq_core import names
from slotq_core.wire.training.processing_request import is_processing
from slotq_core.wire.training.training_request import (
    RequestFault,
    Shape,
    faults_by,
    processing_faults_by,
    refusal,
)

KINDS = {"long": "integer", "double": "float"}
"""The JSON type of botocore's types that have another name."""
_JAVA_CLASSES = {
    r"\p{L}": r"\w",
    r"\p{N}": r"\w",
    r"\p{Z}": " \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000",
    r"\p{Alnum}": "a-zA-Z0-9",
}
"""Character classes of AWS's patterns that Python lacks, and what replaces them: the replacement
accepts at least as much."""
_INSTANCE_TYPE = r"ml\.[a-z0-9-]+\.[a-z0-9-]+"


@cache
def training_request() -> Shape:
    """The shape of the request, with every bound that botocore knows."""
    return shape_of(input_shape())


def input_shape(operation: str = "CreateTrainingJob") -> Any:
    """botocore's own object for the shape of the request."""
    service = botocore.session.Session().get_service_model("sagemaker")
    return service.operation_model(operation).input_shape


def shape_of(shape: Any) -> Shape:
    """Convert a botocore shape into the form that the request check uses."""
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
    """The pattern of a string, and its description.

    Of an instance type only the form is checked: AWS adds types before a user has a new botocore.
    The queue refuses types that no pool has, and lists those of its pools.
    """
    if name.endswith("InstanceType"):
        form = "be an instance type such as ml.p5.48xlarge"
        return {"pattern": _INSTANCE_TYPE, "form": form, "others": True}
    return {"pattern": python_pattern(pattern), "form": f"have the form {pattern}"}


@cache
def python_pattern(pattern: str | None) -> str | None:
    """Convert a pattern of AWS, in Java syntax, to Python; None if Python cannot express it."""
    if pattern is None:
        return None
    for theirs, ours in _JAVA_CLASSES.items():
        pattern = pattern.replace(theirs, ours)
    try:
        re.compile(pattern)
    except re.error:
        return None
    return pattern


def check(request: Mapping[str, Any]) -> None:
    """Raises InvalidRequest with all faults of a CreateTrainingJob or CreateProcessingJob request,
    each with its path.

    Faults are values that are missing, of the wrong type, unknown or out of bounds. Not if the only
    faults are missing fields of the request itself: the job's project may fill them in, and the
    queue refuses them otherwise. `request` is in JSON form.
    """
    sent = _as_it_is_sent(request)
    if is_processing(request):
        shape = shape_of(input_shape("CreateProcessingJob"))
        faults = processing_faults_by(shape, sent)
    else:
        faults = faults_by(training_request(), sent)
    if not all(fault.lacks and "." not in fault.path for fault in faults):
        raise _refused(faults)


def _as_it_is_sent(request: Mapping[str, Any]) -> Mapping[str, Any]:
    """The request as SageMaker gets it: without what is for the queue alone."""
    sent = {name: value for name, value in request.items() if name != names.CALLBACK}
    tags = sent.get("Tags")
    return {**sent, "Tags": names.sagemaker_tags(tags)} if isinstance(tags, list) else sent


def _refused(faults: list[RequestFault]) -> InvalidRequest:
    refused = refusal(faults)
    if not any(fault.dated for fault in faults):
        return refused
    hint = f"according to botocore {botocore.__version__}; a newer version may know more fields"
    return InvalidRequest(f"{refused.message}\n({hint})", field=refused.field)
