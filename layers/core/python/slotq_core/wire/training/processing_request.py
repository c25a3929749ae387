"""A CreateProcessingJob request in the words of CreateTrainingJob, and back.

Both requests say the same of instances, image, network, keys and runtime, in other places. The
queue keeps every request in the words of CreateTrainingJob, so that admission, projects' rules and
privacy know one vocabulary. MOVES is the table. All other fields of CreateProcessingJob keep their
names (`ProcessingJobName`, `ProcessingInputs` …); fields that SageMaker adds later do too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slotq_core.errors import InvalidRequest
from slotq_core.model.capacity.work import WorkKind, bare, marked
from slotq_core.wire.training.field_paths import MISSING, value_at, with_value

Request = Mapping[str, Any]

NAME = "ProcessingJobName"
"""The field that only requests of processing jobs have."""
TRAINING_NAME = "TrainingJobName"

_INSTANCES = "ResourceConfig"
_ALIKE = {_INSTANCES: "ProcessingClusterConfig", "StoppingCondition": "ProcessingStoppingCondition"}
"""Structures that both requests have, and their names in CreateProcessingJob."""

MOVES: tuple[tuple[str, str], ...] = (
    ("ProcessingResources.ClusterConfig", _INSTANCES),
    ("AppSpecification.ImageUri", "AlgorithmSpecification.TrainingImage"),
    ("AppSpecification.ContainerEntrypoint", "AlgorithmSpecification.ContainerEntrypoint"),
    ("AppSpecification.ContainerArguments", "AlgorithmSpecification.ContainerArguments"),
    ("NetworkConfig.VpcConfig", "VpcConfig"),
    ("NetworkConfig.EnableNetworkIsolation", "EnableNetworkIsolation"),
    (
        "NetworkConfig.EnableInterContainerTrafficEncryption",
        "EnableInterContainerTrafficEncryption",
    ),
    ("ProcessingOutputConfig.KmsKeyId", "OutputDataConfig.KmsKeyId"),
)
"""Each field's path in CreateProcessingJob, and in CreateTrainingJob."""


def is_processing(request: Request) -> bool:
    """Whether the request, in either words, is of a processing job."""
    return NAME in request and TRAINING_NAME not in request


def job_name(request: Request) -> str:
    """The queue's name of the job; empty: the request names none."""
    if is_processing(request):
        return marked(str(request[NAME] or ""), WorkKind.PROCESSING)
    return str(request.get(TRAINING_NAME) or "")


def renamed(request: Request, name: str) -> dict[str, Any]:
    """The request for another job of its kind. `name`: as in the queue, or as in SageMaker."""
    return {**request, NAME if is_processing(request) else TRAINING_NAME: bare(name)}


def as_training(request: Request) -> dict[str, Any]:
    """The request in the words of CreateTrainingJob. Raises InvalidRequest for a field that only
    training jobs have."""
    for name in request:
        if name in _only_of_training():
            raise InvalidRequest(f"{name}: is not a field of CreateProcessingJob", field=name)
    made = dict(request)
    for there, here in MOVES:
        made = _moved(made, there, here)
    return made


def as_processing(request: Request) -> dict[str, Any]:
    """The request in SageMaker's own words. What a project prescribes and only training jobs have
    is left out."""
    made = dict(request)
    for name, own in _ALIKE.items():
        if isinstance(inner := made.get(name), Mapping):
            others = _only_of_training(name, own)
            made[name] = {key: value for key, value in inner.items() if key not in others}
            made = made if made[name] else _without(made, name)
    for there, here in MOVES:
        made = _moved(made, here, there)
    return {name: value for name, value in made.items() if name not in _only_of_training()}


def as_sent(request: Request) -> dict[str, Any]:
    """A stored request in the words that SageMaker takes for its kind of work."""
    return as_processing(request) if is_processing(request) else dict(request)


def path_in_processing(path: str) -> str:
    """The path of a field as the sender of the request knows it."""
    for there, here in MOVES:
        if path == here or path.startswith(f"{here}."):
            return there + path.removeprefix(here)
    return NAME if path == TRAINING_NAME else path


def _only_of_training(
    training: str = "CreateTrainingJobRequest", processing: str = "CreateProcessingJobRequest"
) -> frozenset[str]:
    """The fields that a structure of CreateTrainingJob has and CreateProcessingJob's has not."""
    from slotq_core.wire.training.processing_fields import STRUCTURES as PROCESSING
    from slotq_core.wire.training.training_fields import STRUCTURES as TRAINING

    return frozenset(TRAINING[training]).difference(PROCESSING[processing])


def _moved(request: dict[str, Any], origin: str, target: str) -> dict[str, Any]:
    value = value_at(request, origin)
    if value is MISSING:
        return request
    return with_value(_without(request, origin), target, value)


def _without(request: Mapping[str, Any], path: str) -> dict[str, Any]:
    """The request without the field, and without structures that are empty then."""
    name, _, inner = path.partition(".")
    rest = {key: value for key, value in request.items() if key != name}
    if inner and (left := _without(request[name], inner)):
        return {**rest, name: left}
    return rest
