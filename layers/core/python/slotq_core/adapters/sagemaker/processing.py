"""Processing jobs in the words of training jobs, and an attempt's CreateProcessingJob request.

A processing job has a status and no secondary status. Its times show whether it has its instances,
and whether it was stopped because it reached its maximum runtime.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slotq_core.adapters.sagemaker.observations import milliseconds
from slotq_core.model.capacity.work import WorkKind, bare, marked
from slotq_core.wire.training.processing_request import NAME, TRAINING_NAME, as_processing

_FIELDS = {
    "ProcessingJobArn": "TrainingJobArn",
    "ProcessingJobStatus": "TrainingJobStatus",
    "FailureReason": "FailureReason",
    "CreationTime": "CreationTime",
    "LastModifiedTime": "LastModifiedTime",
    "ProcessingStartTime": "TrainingStartTime",
    "ProcessingEndTime": "TrainingEndTime",
    "StoppingCondition": "StoppingCondition",
    "Tags": "Tags",
}
_LAG = 1000
"""How much shorter (ms) than its maximum runtime a job may seem that has reached it: SageMaker's
times may be whole seconds."""


def in_training_words(detail: Mapping[str, Any]) -> dict[str, Any]:
    """A description, an event's detail or a line of ListProcessingJobs."""
    found = {here: detail[there] for there, here in _FIELDS.items() if there in detail}
    resources = (detail.get("ProcessingResources") or {}).get("ClusterConfig") or {}
    return {
        **found,
        TRAINING_NAME: marked(detail[NAME], WorkKind.PROCESSING),
        "SecondaryStatus": _secondary(detail),
        "ResourceConfig": {
            "InstanceType": resources.get("SelectedInstanceType") or resources.get("InstanceType"),
            "InstanceCount": resources.get("SelectedInstanceCount")
            or resources.get("InstanceCount"),
        },
    }


def processing_request(created: Mapping[str, Any]) -> dict[str, Any]:
    """The request of an attempt. `created`: as it would be of a training job."""
    rest = {key: value for key, value in created.items() if key != TRAINING_NAME}
    return as_processing({**rest, NAME: bare(created[TRAINING_NAME])})


def _secondary(detail: Mapping[str, Any]) -> str:
    status, began = detail.get("ProcessingJobStatus"), detail.get("ProcessingStartTime")
    if status == "InProgress":
        return "Starting" if began is None else "Training"
    return "MaxRuntimeExceeded" if status == "Stopped" and _over(detail) else ""


def _over(detail: Mapping[str, Any]) -> bool:
    longest = (detail.get("StoppingCondition") or {}).get("MaxRuntimeInSeconds")
    began = milliseconds(detail.get("ProcessingStartTime"))
    ended = milliseconds(detail.get("ProcessingEndTime"))
    if not longest or began is None or ended is None:
        return False
    return ended - began >= 1000 * int(longest) - _LAG
