"""What two training jobs must have in common so that the second starts on the warm instances of the
first: SageMaker's rules, as a short hash. The instance type is the pool's."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from slotq_core.wire.training.field_paths import INSTANCE_COUNT, MISSING, instance_count, value_at

_FIELDS = (
    "RoleArn",
    INSTANCE_COUNT,
    "ResourceConfig.VolumeKmsKeyId",
    "ResourceConfig.VolumeSizeInGB",
    "ResourceConfig.TrainingPlanArn",
    "VpcConfig.SecurityGroupIds",
    "VpcConfig.Subnets",
)
_SWITCHES = (
    "EnableInterContainerTrafficEncryption",
    "EnableNetworkIsolation",
    "SessionChainingConfig.EnableSessionTagChaining",
)
KEEP_ALIVE = "ResourceConfig.KeepAlivePeriodInSeconds"


def warm_key(request: Mapping[str, Any]) -> str:
    """The key; empty for a request whose instances are never kept: spot instances, and groups of
    several types."""
    if request.get("EnableManagedSpotTraining") or value_at(
        request, "ResourceConfig.InstanceGroups"
    ) not in (MISSING, None, [], ()):
        return ""
    values = [_plain(value_at(request, path)) for path in _FIELDS]
    values[_FIELDS.index(INSTANCE_COUNT)] = instance_count(request)
    values += [value_at(request, path) is True for path in _SWITCHES]
    text = json.dumps(values, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def keep_alive(request: Mapping[str, Any]) -> int | None:
    """How long (ms) the request wants its instances kept; None: it does not say."""
    seconds = value_at(request, KEEP_ALIVE)
    return 1000 * seconds if isinstance(seconds, int) else None


def _plain(value: Any) -> Any:
    return None if value is MISSING else value
