"""The faults of a CreateTrainingJob request, by the structure of SageMaker's API.

Two places check requests. The client takes the structure with every bound from the user's botocore,
and refuses unknown fields. Admission has only the names and types of `training_fields`, which may
be older than the user's SDK. So it refuses missing fields, wrong types and near misspellings of
known fields; every other unknown field passes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import islice
from math import inf
from typing import Any

from slotq_core.errors import InvalidRequest
from slotq_core.spelling import near_names, similar_name
from slotq_core.wire.training.field_rules import breaches

REQUEST = "CreateTrainingJobRequest"
PROCESSING = "CreateProcessingJobRequest"
"""The names of the structures of whole requests."""

ON_INSTANCES = ("AlgorithmSpecification", "ResourceConfig")
"""Fields that SageMaker also requires of a job that runs on instances."""
PROGRAMS = ("TrainingImage", "AlgorithmName")
"""The two ways to name the program; an AlgorithmSpecification has exactly one."""
MOST_FAULTS = 20
"""The most faults that one answer lists."""
MOST_UNKNOWN = 100
"""The most unknown fields of one request, or of the members of one group together; of a name that
occurs again only the first counts. Comparing each with the known names costs time, and SageMaker
does not add so many fields between two releases."""
_SHOWN = 40
_NEAR = 0.85
"""The least similarity (difflib's ratio) of a misspelling to the known name. RoleArm and RoleArn
score 0.86."""

_KINDS: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "string": ("a text", lambda value: isinstance(value, str)),
    "integer": ("a whole number", lambda value: type(value) is int),
    "float": ("a number", lambda value: type(value) in {int, float}),
    "boolean": ("true or false", lambda value: isinstance(value, bool)),
    "timestamp": ("a moment", lambda value: isinstance(value, str) or type(value) in {int, float}),
    "list": ("a list", lambda value: isinstance(value, list)),
    "map": ("an object", lambda value: isinstance(value, Mapping)),
    "structure": ("an object", lambda value: isinstance(value, Mapping)),
}
"""Each kind of value, with its name in messages and its test."""

_CONTAINERS = frozenset({"list", "map", "structure"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """The form that one value of the request may have. A bound of None is unknown."""

    kind: str
    """One of _KINDS."""
    members: Mapping[str, Shape] = field(default_factory=dict)
    """A structure's fields."""
    required: frozenset[str] = frozenset()
    item: Shape | None = None
    """The form of a list's items or a map's values."""
    key: Shape | None = None
    """The form of a map's keys."""
    low: int | None = None
    high: int | None = None
    """The bounds of a number, of a text's length, or of the number of items in a list or map."""
    pattern: str | None = None
    """A regular expression that must match the whole text."""
    form: str = ""
    """The message for a text that does not match the pattern."""
    values: tuple[str, ...] = ()
    """The allowed texts; empty: any."""
    others: bool = False
    """Whether other texts are allowed too, because `values` may be out of date."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestFault:
    path: str
    """`ResourceConfig.InstanceCount`, `Tags.0.Key`; empty: the whole request."""
    message: str
    dated: bool = False
    """Whether a later version of SageMaker's API might accept the value."""
    lacks: bool = False
    """Whether a field is missing. A project may fill it in."""
    by_rule: bool = False
    """Whether a rule between fields is broken (`field_rules`)."""

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


def refusal(faults: Sequence[RequestFault]) -> InvalidRequest:
    """The error that lists all faults, one a line. Its field is the first fault's."""
    pairs = tuple((fault.path, fault.message) for fault in faults[:MOST_FAULTS])
    if len(faults) == 1:
        return InvalidRequest(str(faults[0]), field=faults[0].path, faults=pairs)
    listed = [f"  {fault}" for fault in faults[:MOST_FAULTS]]
    number = str(len(faults)) if len(faults) <= MOST_FAULTS else f"more than {MOST_FAULTS}"
    lines = "\n".join([f"the request has {number} faults:", *listed])
    return InvalidRequest(lines, field=faults[0].path, faults=pairs)


@cache
def known_shape() -> Shape:
    """The structure in `training_fields`: names, types and required fields."""
    from slotq_core.wire.training.training_fields import REQUIRED, STRUCTURES

    return _shape(REQUEST, STRUCTURES, REQUIRED)


class RequestCheck:
    """Checks of submitted requests by what every version of SageMaker's API has in common.

    A value that several of the requests share, the same object, is checked once. So the members of
    a group are checked in the time of its body, not of its template times its members.
    """

    def __init__(self) -> None:
        self._reading = _Reading(refuse_unknown=False)

    def faults(self, request: Mapping[str, Any]) -> list[RequestFault]:
        """The faults that no version of SageMaker's API would accept; at most MOST_FAULTS + 1."""
        return _with_rules(self._reading.faults(request, known_shape()), request)

    def processing_faults(self, request: Mapping[str, Any]) -> list[RequestFault]:
        """The same of a CreateProcessingJob request in its own words."""
        reading = _Reading(refuse_unknown=False, operation="CreateProcessingJob")
        return [*islice(reading.of_value(request, processing_shape(), ""), MOST_FAULTS + 1)]

    def check_complete(self, request: Mapping[str, Any]) -> None:
        """Check a request again whose missing fields were filled in. Raises InvalidRequest with
        every fault."""
        if faults := self.faults(request):
            raise refusal(faults)


def check_complete(request: Mapping[str, Any]) -> None:
    """`RequestCheck.check_complete`, of one request."""
    RequestCheck().check_complete(request)


def check_processing(request: Mapping[str, Any]) -> None:
    """The same of a CreateProcessingJob request in its own words."""
    if faults := RequestCheck().processing_faults(request):
        raise refusal(faults)


def submission_faults(request: Mapping[str, Any]) -> list[RequestFault]:
    """`RequestCheck.faults`, of one request."""
    return RequestCheck().faults(request)


def faults_by(shape: Shape, request: Mapping[str, Any]) -> list[RequestFault]:
    """The faults by the user's own structure. Unknown fields are faults too. Not the fields that
    are missing by a rule between fields: a project may fill them in."""
    faults = _with_rules(_Reading(refuse_unknown=True).faults(request, shape), request)
    return [fault for fault in faults if not fault.by_rule or not fault.lacks]


def processing_faults_by(shape: Shape, request: Mapping[str, Any]) -> list[RequestFault]:
    """The same of a CreateProcessingJob request."""
    reading = _Reading(refuse_unknown=True, operation="CreateProcessingJob")
    return [*islice(reading.of_value(request, shape, ""), MOST_FAULTS + 1)]


def _with_rules(faults: list[RequestFault], request: Mapping[str, Any]) -> list[RequestFault]:
    """The faults, with those by the rules between fields. These are asked only of a request whose
    values have the right types."""
    if not all(fault.lacks or fault.dated for fault in faults):
        return faults
    found = (
        RequestFault(path=path, message=message, lacks=rule.is_curable(request), by_rule=True)
        for rule, path, message in breaches(request)
        if rule.certain
    )
    return [*faults, *islice(found, MOST_FAULTS + 1 - len(faults))]


def value_faults(path: str, value: Any, shape: Shape) -> list[RequestFault]:
    """The faults of one field's value, at most MOST_FAULTS + 1. Unknown fields are faults too."""
    return [*islice(_Reading(refuse_unknown=True).of_value(value, shape, path), MOST_FAULTS + 1)]


@cache
def processing_shape() -> Shape:
    """The same of CreateProcessingJob (`processing_fields`)."""
    from slotq_core.wire.training.processing_fields import REQUIRED, STRUCTURES

    return _shape(PROCESSING, STRUCTURES, REQUIRED)


def _shape(
    kind: str,
    structures: Mapping[str, Mapping[str, str]],
    required: Mapping[str, tuple[str, ...]],
) -> Shape:
    """A shape from the notation of `training_fields`: `string`, a structure's name, `list …`, `map
    …`."""
    outer, _, inner = kind.partition(" ")
    if inner:
        return Shape(kind=outer, item=_shape(inner, structures, required))
    if kind not in structures:
        return Shape(kind=kind)
    members = {
        name: _shape(notation, structures, required) for name, notation in structures[kind].items()
    }
    return Shape(kind="structure", members=members, required=frozenset(required.get(kind, ())))


class _Reading:
    """One check of requests that may share values."""

    def __init__(self, *, refuse_unknown: bool, operation: str = "CreateTrainingJob") -> None:
        self._refuse_unknown, self._operation = refuse_unknown, operation
        self._unknown = 0
        self._similar: dict[tuple[str, int], Sequence[str]] = {}
        """The known names that an unknown one may misspell, by its name and the identity of its
        structure's fields."""
        self._faultless: dict[tuple[int, int], tuple[Any, Shape]] = {}
        """Containers without faults, with their shapes, by both identities. Kept, so that no other
        object gets one of these identities."""

    def faults(self, request: Mapping[str, Any], shape: Shape) -> list[RequestFault]:
        found = [*islice(self._all(request, shape), MOST_FAULTS + 1)]
        if self._unknown > MOST_UNKNOWN:
            found.insert(0, RequestFault(path="", message=_too_many_unknown()))
        return found[: MOST_FAULTS + 1]

    def _all(self, request: Mapping[str, Any], shape: Shape) -> Iterator[RequestFault]:
        yield from self.of_value(request, _on_instances(shape, request), "")
        if "ServerlessJobConfig" not in request:
            name = "AlgorithmSpecification"
            yield from _program(request.get(name), shape.members.get(name))

    def of_value(self, value: Any, shape: Shape, path: str) -> Iterator[RequestFault]:
        """The faults of the value and all that is in it."""
        what, fits = _KINDS[shape.kind]
        if not fits(value):
            yield RequestFault(path=path, message=f"must be {what}, not {_said(value)}")
            return
        for wrong in _beyond(value, shape):
            yield RequestFault(path=path, message=wrong, dated=True)
        if shape.kind in _CONTAINERS and (id(value), id(shape)) not in self._faultless:
            found = False
            for fault in self._of_parts(value, shape, path):
                found = True
                yield fault
            if not found:
                self._faultless[id(value), id(shape)] = value, shape

    def _of_parts(self, value: Any, shape: Shape, path: str) -> Iterator[RequestFault]:
        """The faults of what is in a container."""
        if shape.kind == "structure":
            yield from self._of_structure(value, shape, path)
        elif shape.kind == "map":
            for key, part in value.items():
                yield from self._of_entry(key, part, shape, _join(path, key))
        elif shape.item:
            for number, part in enumerate(value):
                yield from self.of_value(part, shape.item, _join(path, number))

    def _of_entry(self, key: str, value: Any, shape: Shape, path: str) -> Iterator[RequestFault]:
        if shape.key:
            for wrong in _beyond(key, shape.key):
                yield RequestFault(path=path, message=f"its name {wrong}", dated=True)
        if shape.item:
            yield from self.of_value(value, shape.item, path)

    def _of_structure(
        self, value: Mapping[str, Any], shape: Shape, path: str
    ) -> Iterator[RequestFault]:
        meant = set()
        for name, part in value.items():
            if name in shape.members:
                yield from self.of_value(part, shape.members[name], _join(path, name))
                if part == "" and not path and name in shape.required:
                    yield RequestFault(
                        path=_join(path, name), message="is required, and must not be empty"
                    )
            else:
                near = self._misspelt(name, shape, value)
                if near:
                    meant.add(near)
                if near or self._refuse_unknown:
                    known = near or similar_name(name, shape.members)
                    message = _unknown_field(self._operation, known)
                    yield RequestFault(path=_join(path, name), message=message, dated=True)
        for name in shape.members:
            if name in shape.required and name not in value and name not in meant:
                yield RequestFault(path=_join(path, name), message="is required", lacks=True)

    def _misspelt(self, name: str, shape: Shape, value: Mapping[str, Any]) -> str | None:
        """The known field that the name misspells. Only absent fields count, because SageMaker adds
        fields with similar names: TrainingPlanArns beside TrainingPlanArn."""
        asked = name, id(shape.members)
        if asked not in self._similar:
            self._unknown += 1
            if self._unknown > MOST_UNKNOWN:
                return None
            self._similar[asked] = near_names(name, shape.members, _NEAR)
        return next((known for known in self._similar[asked] if known not in value), None)


def _on_instances(shape: Shape, request: Mapping[str, Any]) -> Shape:
    """The structure with the extra required fields of a job on instances. The API's own structure
    also covers jobs without instances."""
    if "ServerlessJobConfig" in request:
        return shape
    return replace(shape, required=shape.required.union(ON_INSTANCES))


def _program(algorithm: Any, shape: Shape | None) -> Iterator[RequestFault]:
    """The faults in how the request names its program. SageMaker requires exactly one way; the
    API's structure does not say so."""
    if not isinstance(algorithm, Mapping) or shape is None:
        return
    programs = [name for name in PROGRAMS if algorithm.get(name)]
    if not programs and algorithm.keys() <= shape.members.keys():
        message = "give TrainingImage or AlgorithmName"
        yield RequestFault(path="AlgorithmSpecification", message=message, lacks=True)
    if len(programs) > 1:
        message = "give TrainingImage or AlgorithmName, not both"
        yield RequestFault(path="AlgorithmSpecification", message=message)


def _unknown_field(operation: str, near: str | None) -> str:
    return f"is not a field of {operation}" + (f"; did you mean {near}?" if near else "")


def _too_many_unknown() -> str:
    return f"more than {MOST_UNKNOWN} fields are unknown: send a CreateTrainingJob request"


def _beyond(value: Any, shape: Shape) -> Iterator[str]:
    """The bound that a value of the right kind breaks; at most one, the most informative."""
    if shape.values and not shape.others and value not in shape.values:
        yield f"must be one of {', '.join(shape.values)}, not {_quoted(value, shape)}"
    elif shape.pattern and not re.fullmatch(shape.pattern, value, re.DOTALL):
        said = f", not {_quoted(value, shape)}" if shape.values else ""
        yield f"must {shape.form}{said}"
    elif shape.low is not None or shape.high is not None:
        size, unit = _size(value)
        if not (shape.low or 0) <= size <= (inf if shape.high is None else shape.high):
            yield f"must {_range(shape.low, shape.high, unit)}, not {size:,}"


def _size(value: Any) -> tuple[int, str]:
    if isinstance(value, int):
        return value, ""
    return len(value), "characters" if isinstance(value, str) else "entries"


def _quoted(value: str, shape: Shape) -> str:
    near = similar_name(value, shape.values)
    return f"{value[:_SHOWN]!r}" + (f"; did you mean {near}?" if near else "")


def _range(low: int | None, high: int | None, unit: str) -> str:
    verb = "have" if unit else "be"
    end = f" {unit}" if unit else ""
    if high is None:
        return f"{verb} at least {low:,}{end}"
    if not low:
        return f"{verb} at most {high:,}{end}"
    return f"{verb} {low:,} to {high:,}{end}"


def _said(value: Any) -> str:
    """The kind of the value, without the value of a text, list or object, which may be secret."""
    if value is None:
        return "null; leave the field out"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return f"the number {value}"
    if isinstance(value, str):
        return "a text"
    return "a list" if isinstance(value, list) else "an object"


def _join(path: str, part: object) -> str:
    part = str(part)[:_SHOWN]
    return f"{path}.{part}" if path else part
