"""The CreateTrainingJob request of a node.

It takes from a job's request what all jobs of the tenant have in common, and nothing that is the
job's own: no hyperparameters, inputs, checkpoints or limits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from slotq_core.adapters.sagemaker.observations import TOKEN_TAG
from slotq_core.adapters.sagemaker.service import ATTEMPT_TAG
from slotq_core.model.nodes import Node, owner_of_node
from slotq_core.names import JOB_TAG, PROJECT_TAG, QUEUE_TAG, tag_value, token_in_tags
from slotq_core.ports.nodes import Launch
from slotq_core.ports.training import NODE_MAX_RUNTIME, Request

_IMAGE = ("TrainingImage", "TrainingImageConfig")
_VOLUME = ("VolumeSizeInGB", "VolumeKmsKeyId", "TrainingPlanArn")


def node_request(
    request: Request,
    node: Node,
    launch: Launch,
    *,
    instance_type: str,
    queue: str,
    tags: Iterable[Mapping[str, str]] = (),
) -> dict[str, Any]:
    """Return the request of a node's training job. `request`: that of a job of the node's tenant.
    `tags`: those that all jobs of the node have, beside the queue's own. Raises KeyError or
    TypeError for a request that no training job can have."""
    algorithm = {
        **_some(request["AlgorithmSpecification"], _IMAGE),
        "TrainingInputMode": "File",
        "ContainerEntrypoint": [*launch.entrypoint],
    }
    resources = {
        **_some(request["ResourceConfig"], _VOLUME),
        "InstanceType": instance_type,
        "InstanceCount": 1,
    }
    own = {
        **({PROJECT_TAG: tag_value(node.project)} if node.project else {}),
        JOB_TAG: tag_value(owner_of_node(node.pool, node.name)),
        ATTEMPT_TAG: str(node.generation),
        TOKEN_TAG: token_in_tags(node.token),
        QUEUE_TAG: queue,
    }
    return {
        **_some(request, ("RoleArn", "VpcConfig", "OutputDataConfig")),
        **_some(request, ("EnableInterContainerTrafficEncryption", "RemoteDebugConfig")),
        "TrainingJobName": node.training_job,
        "AlgorithmSpecification": algorithm,
        "ResourceConfig": resources,
        "StoppingCondition": {"MaxRuntimeInSeconds": NODE_MAX_RUNTIME},
        "EnableManagedSpotTraining": False,
        "Environment": {**launch.environment},
        "Tags": [*tags, *({"Key": key, "Value": value} for key, value in own.items())],
    }


def _some(document: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: document[name] for name in names if document.get(name) is not None}
