"""Check a request against the local botocore's model of SageMaker before the queue accepts it.

Without the check, SageMaker would find a fault only when the job starts, perhaps hours later.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import botocore

from slotq.errors import InvalidRequest
from slotq.jobs.sagemaker_model import training_request
from slotq_core import names
from slotq_core.wire.training.training_request import Fault, faults_by, refusal


def check(request: Mapping[str, Any]) -> None:
    """Raises InvalidRequest with all faults of a CreateTrainingJob request, each with its path.

    Faults are values that are missing, of the wrong type, unknown or out of bounds. Not if the only
    faults are missing fields of the request itself: the job's project may fill them in, and the
    queue refuses them otherwise. `request` is in JSON form.
    """
    faults = faults_by(training_request(), _as_it_is_sent(request))
    if not all(fault.lacks and "." not in fault.path for fault in faults):
        raise _refused(faults)


def _as_it_is_sent(request: Mapping[str, Any]) -> Mapping[str, Any]:
    tags = request.get("Tags")
    return {**request, "Tags": names.sagemaker_tags(tags)} if isinstance(tags, list) else request


def _refused(faults: list[Fault]) -> InvalidRequest:
    refused = refusal(faults)
    if not any(fault.dated for fault in faults):
        return refused
    hint = f"according to botocore {botocore.__version__}; a newer version may know more fields"
    return InvalidRequest(f"{refused.message}\n({hint})", field=refused.field)
