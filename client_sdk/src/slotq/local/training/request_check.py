"""Checks requests against botocore's own description of SageMaker, and the errors of calls."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import botocore.session
from botocore.validate import ParamValidator

from slotq.aws_members import refused_by_emulator
from slotq.jobs.sagemaker_model import python_pattern
from slotq_core.wire.training.field_rules import breaches


class PlaneError(Exception):
    """An error answer. `code` and `message` are SageMaker's."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


def denied(action: str, resource: str) -> PlaneError:
    """IAM's answer to a caller without permission."""
    return PlaneError(
        "AccessDeniedException",
        "User: arn:aws:sts::123456789012:assumed-role/slotq/slotq is not authorized to perform: "
        f"{action} on resource: {resource} because no identity-based policy allows the {action} "
        "action",
    )


class NoAnswer(Exception):
    """The call took effect, but the answer is lost (knob `lose_answers`)."""


OPERATIONS = (
    "CreateTrainingJob",
    "DescribeTrainingJob",
    "StopTrainingJob",
    "ListTrainingJobs",
    "CreateProcessingJob",
    "DescribeProcessingJob",
    "StopProcessingJob",
    "ListProcessingJobs",
    "DeleteTrainingJob",
    "ListTags",
    "AddTags",
    "UpdateTrainingJob",
    "DescribeTrainingPlan",
    "Search",
)


@cache
def service_model() -> Any:
    return botocore.session.Session().get_service_model("sagemaker")


@cache
def _input_shape(operation: str) -> Any:
    return service_model().operation_model(operation).input_shape


def check(operation: str, request: Mapping[str, Any]) -> None:
    """Check a request. Raises PlaneError (ValidationException) with every fault. Checks types and
    required members first, and only if these hold, patterns, lengths, ranges and enumerations, and
    the rules between fields."""
    if operation not in OPERATIONS:
        raise PlaneError("UnknownOperationException", f"{operation} is not in the emulator")
    if why := refused_by_emulator(f"sagemaker.{operation}", request):
        raise PlaneError("ValidationException", why)
    shape = _input_shape(operation)
    report = ParamValidator().validate(request, shape)
    if report.has_errors():
        raise PlaneError("ValidationException", str(report.generate_report()))
    faults = list(_faults(shape, request, ""))
    if operation == "CreateTrainingJob":
        faults += (
            f"{path}: {message}" for rule, path, message in breaches(request) if rule.certain
        )
    if faults:
        plural = "error" if len(faults) == 1 else "errors"
        raise PlaneError(
            "ValidationException",
            f"{len(faults)} validation {plural} detected: " + "; ".join(faults),
        )


def faults_in(shape: str, value: Any) -> list[str]:
    """The faults of a value, by the name of its shape in botocore's model."""
    found = service_model().shape_for(shape)
    return list(_faults(found, value, shape))


def _faults(shape: Any, value: Any, path: str) -> Iterator[str]:
    """The faults that the service finds and botocore's validator does not, in the service's
    words."""
    if shape.type_name == "structure":
        for name, member in value.items():
            yield from _faults(shape.members[name], member, f"{path}.{name}" if path else name)
    elif shape.type_name == "list":
        yield from _size(shape, len(value), value, path, "length")
        for index, member in enumerate(value):
            yield from _faults(shape.member, member, f"{path}.{index + 1}.member")
    elif shape.type_name == "map":
        yield from _size(shape, len(value), value, path, "length")
        for key, member in value.items():
            yield from _faults(shape.key, key, f"{path}.key")
            yield from _faults(shape.value, member, f"{path}.{key}.member")
    elif shape.type_name == "string":
        yield from _size(shape, len(value), value, path, "length")
        yield from _wording(shape, value, path)
    elif shape.type_name in {"integer", "long"}:
        yield from _size(shape, value, value, path, "value")


def _size(shape: Any, size: int, value: Any, path: str, what: str) -> Iterator[str]:
    low, high = shape.metadata.get("min"), shape.metadata.get("max")
    if low is not None and size < low:
        yield _fault(value, path, f"Member must have {what} greater than or equal to {low}")
    if high is not None and size > high:
        yield _fault(value, path, f"Member must have {what} less than or equal to {high}")


def _wording(shape: Any, value: str, path: str) -> Iterator[str]:
    allowed = shape.metadata.get("enum")
    if allowed and value not in allowed:
        yield _fault(value, path, f"Member must satisfy enum value set: [{', '.join(allowed)}]")
    pattern = _compiled(shape.metadata.get("pattern"))
    if pattern and not pattern.fullmatch(value):
        yield _fault(
            value, path, f"Member must satisfy regular expression pattern: {pattern.pattern}"
        )


@cache
def _compiled(pattern: str | None) -> re.Pattern[str] | None:
    """A compiled pattern. None without a pattern, or if Python cannot compile it (patterns are
    Java's)."""
    python = python_pattern(pattern)
    return re.compile(python, re.DOTALL) if python else None


def _fault(value: Any, path: str, constraint: str) -> str:
    where = ".".join(part[:1].lower() + part[1:] for part in path.split("."))
    return f"Value '{str(value)[:200]}' at '{where}' failed to satisfy constraint: {constraint}"
