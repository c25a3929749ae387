"""What of a kept request is shown to whom.

A request can hold secrets: in its environment, its hyperparameters, its container's arguments. So
it is shown whole to those who have the submitter's own IAM identity, and to everybody else only the
fields that say where and how the job runs. What is not named here is withheld, so that a field
which SageMaker invents tomorrow is too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

OPEN_FIELDS = frozenset(
    {
        "CheckpointConfig",
        "EnableInterContainerTrafficEncryption",
        "EnableManagedSpotTraining",
        "EnableNetworkIsolation",
        "InputDataConfig",
        "OutputDataConfig",
        "ResourceConfig",
        "RetryStrategy",
        "RoleArn",
        "StoppingCondition",
        "Tags",
        "TrainingJobName",
        "VpcConfig",
    }
)
"""Of CreateTrainingJob: names, places, sizes, switches, and the tags, which AWS shows as well."""
OPEN_PARTS: Mapping[str, frozenset[str]] = {
    "AlgorithmSpecification": frozenset({"AlgorithmName", "TrainingImage", "TrainingInputMode"}),
}
"""Fields of which these parts are open."""

_ASSUMED_ROLE = re.compile(r"(arn:[^:]+:sts::[^:]*:assumed-role/[^/]+)/.*", re.DOTALL)


@dataclass(frozen=True, kw_only=True, slots=True)
class Shown:
    """A request, as somebody may see it."""

    request: Mapping[str, Any]
    withheld: tuple[str, ...] = ()
    """The fields that are kept but not shown."""


def shown(request: Mapping[str, Any], *, submitter: str, to: str) -> Shown:
    """`submitter` and `to`: ARNs of callers, as API Gateway gives them."""
    if identity(submitter) == identity(to):
        return Shown(request=request)
    kept: dict[str, Any] = {}
    withheld: list[str] = []
    for key, value in request.items():
        if key in OPEN_FIELDS:
            kept[key] = value
        elif key in OPEN_PARTS and isinstance(value, Mapping):
            kept[key] = {part: its for part, its in value.items() if part in OPEN_PARTS[key]}
            withheld += (f"{key}.{part}" for part in value if part not in OPEN_PARTS[key])
        else:
            withheld.append(key)
    return Shown(request=kept, withheld=tuple(withheld))


def identity(caller: str) -> str:
    """The IAM user or role behind a caller's ARN. The name of a role's session does not count:
    whoever assumes the role chooses it."""
    assumed = _ASSUMED_ROLE.fullmatch(caller)
    return assumed.group(1) if assumed else caller
