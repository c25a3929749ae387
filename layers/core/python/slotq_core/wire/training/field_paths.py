"""Fields of a CreateTrainingJob request by path: `VpcConfig`, `ResourceConfig.VolumeKmsKeyId`,
`DebugRuleConfigurations[].S3OutputPath`.

A part with `[]` is a list; the path then means each of its items.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from slotq_core.model.pools import CapacityKind

if (
    TYPE_CHECKING
):  # The event path has no use for SageMaker's structure, unless a project has rules.
    from slotq_core.wire.training.training_request import Shape

MISSING: Any = object()
"""The value that `value_at` returns for an absent field."""


def value_at(request: Mapping[str, Any], path: str) -> Any:
    """The value of a field; MISSING if the request does not have it. The path has no lists."""
    found: Any = request
    for name in path.split("."):
        if not isinstance(found, Mapping) or name not in found:
            return MISSING
        found = found[name]
    return found


def keeps_checkpoints(request: Mapping[str, Any]) -> bool:
    """Whether SageMaker keeps the checkpoints of the request's job."""
    return value_at(request, "CheckpointConfig.S3Uri") is not MISSING


INSTANCE_COUNT = "ResourceConfig.InstanceCount"


def instance_count(request: Mapping[str, Any]) -> Any:
    """The number of instances; None: it does not say, or has groups. Preferences have one count for
    all."""
    found = value_at(request, INSTANCE_COUNT)
    preferences = value_at(request, "ResourceConfig.InstancePreferences")
    if found is MISSING and isinstance(preferences, list) and preferences:
        found = value_at(preferences[0], "InstanceCount")
    return None if found is MISSING else found


def kind_asked_for(request: Mapping[str, Any]) -> CapacityKind | None:
    """How the request wants its instances bought; None: it does not say."""
    asked = value_at(request, "EnableManagedSpotTraining")
    if asked is True:
        return CapacityKind.SPOT
    return CapacityKind.ON_DEMAND if asked is False else None


def with_value(request: Mapping[str, Any], path: str, value: Any) -> dict[str, Any]:
    """The request with the field set. Structures on the way are made; nothing is changed in place.
    The path has no lists."""
    name, _, inner = path.partition(".")
    if inner:
        outer = request.get(name)
        value = with_value(outer if isinstance(outer, Mapping) else {}, inner, value)
    return {**request, name: value}


def values_at(request: Any, path: str, above: str = "") -> Iterator[tuple[str, Any]]:
    """Each value that a path means, with its own path: `DebugRuleConfigurations.0.S3OutputPath`."""
    if not path:
        yield above, request
        return
    part, _, rest = path.partition(".")
    name = part.removesuffix("[]")
    if not isinstance(request, Mapping) or name not in request:
        return
    here, found = f"{above}.{name}" if above else name, request[name]
    if part == name:
        yield from values_at(found, rest, here)
    elif isinstance(found, list):
        for number, item in enumerate(found):
            yield from values_at(item, rest, f"{here}.{number}")


def shape_at(path: str) -> Shape | None:
    """The form of a field; None if SageMaker has no such field. The path has no lists."""
    shape = _known()
    for name in path.split("."):
        if shape.kind != "structure" or name not in shape.members:
            return None
        shape = shape.members[name]
    return shape


def paths_ending(name: str, shape: Shape | None = None, above: str = "") -> Iterator[str]:
    """The paths, without lists, of all fields of that name."""
    for member, inner in (shape or _known()).members.items():
        here = f"{above}.{member}" if above else member
        if member == name:
            yield here
        yield from paths_ending(name, inner, here)


def unknown_names(
    value: Any, shape: Shape | None = None, above: str = ""
) -> Iterator[tuple[str, str]]:
    """The fields that are not SageMaker's, by path. With each, the known field that it is but for
    case, spaces, hyphens and underscores; empty if no field matches."""
    from slotq_core.spelling import plain_name

    shape = shape or _known()
    if shape.kind == "list" and shape.item and isinstance(value, list):
        for number, item in enumerate(value):
            yield from unknown_names(item, shape.item, f"{above}.{number}")
    if shape.kind != "structure" or not isinstance(value, Mapping):
        return
    spelled = {plain_name(name): name for name in shape.members}
    for name, inner in value.items():
        here = f"{above}.{name}" if above else str(name)
        if name in shape.members:
            yield from unknown_names(inner, shape.members[name], here)
        else:
            yield here, spelled.get(plain_name(str(name)), "")


def _known() -> Shape:
    from slotq_core.wire.training.training_request import known_shape

    return known_shape()
