"""The parts of a stored request that a caller may see.

A request can hold secrets in its environment, hyperparameters and container arguments. So only the
person who submitted the job sees the whole request. Everyone else sees only the fields that say
where and how the job runs. Any field not listed here is withheld, including fields that SageMaker
adds later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slotq_core.privacy.identity import People

OPEN_FIELDS = frozenset(
    {
        "CheckpointConfig",
        "EnableInterContainerTrafficEncryption",
        "EnableManagedSpotTraining",
        "EnableNetworkIsolation",
        "InputDataConfig",
        "OutputDataConfig",
        "ProcessingJobName",
        "ProcessingOutputConfig",
        "ResourceConfig",
        "RetryStrategy",
        "RoleArn",
        "StoppingCondition",
        "Tags",
        "TrainingJobName",
        "VpcConfig",
    }
)
"""Open fields of CreateTrainingJob, and of processing jobs in its words: names, places, sizes,
switches, and the tags, which AWS also shows."""
OPEN_PARTS: Mapping[str, frozenset[str]] = {
    "AlgorithmSpecification": frozenset({"AlgorithmName", "TrainingImage", "TrainingInputMode"}),
}
"""Fields with the parts that are open."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Shown:
    """A request as one caller may see it."""

    request: Mapping[str, Any]
    withheld: tuple[str, ...] = ()
    """The fields that are stored but not shown."""


def shown(request: Mapping[str, Any], *, submitter: str, to: str, people: People) -> Shown:
    """The request as caller `to` may see it. `submitter` and `to` are callers' ARNs, as API Gateway
    gives them."""
    if people.person(submitter) == people.person(to):
        return Shown(request=request)
    kept: dict[str, Any] = {}
    withheld: list[str] = []
    for key, value in request.items():
        if key in OPEN_FIELDS:
            kept[key] = value
        elif key in OPEN_PARTS and isinstance(value, Mapping):
            kept[key] = {
                part: content for part, content in value.items() if part in OPEN_PARTS[key]
            }
            withheld += (f"{key}.{part}" for part in value if part not in OPEN_PARTS[key])
        else:
            withheld.append(key)
    return Shown(request=kept, withheld=tuple(withheld))
