"""Send fields of CreateTrainingJob that this botocore does not know.

The API accepts such fields: a user's SDK may be newer than the queue, and only SageMaker knows
their meaning. botocore would refuse the whole request. Therefore botocore gets the known fields
only, and before signing the whole request replaces the body that botocore built.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_WHOLE = "slotq_whole_request"


def send_unknown_fields(events: Any) -> None:
    """Register the hooks. `events`: the event system of a SageMaker client."""
    events.register("before-parameter-build.sagemaker.CreateTrainingJob", _keep_known)
    events.register("before-call.sagemaker.CreateTrainingJob", _send_whole)


def _keep_known(params: dict[str, Any], model: Any, context: dict[str, Any], **_: Any) -> None:
    known = known_part(params, model.input_shape)
    if known != params:
        context[_WHOLE] = dict(params)
        params.clear()
        params.update(known)


def _send_whole(params: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
    if _WHOLE in context:
        params["body"] = json.dumps(context[_WHOLE]).encode()


def known_part(value: Any, shape: Any) -> Any:
    """Return the value without fields that the shape lacks. A value of another type than the shape
    stays, so that botocore refuses it."""
    match shape.type_name:
        case "structure" if isinstance(value, Mapping):
            members = shape.members
            return {
                name: known_part(part, members[name])
                for name, part in value.items()
                if name in members
            }
        case "list" if isinstance(value, list):
            return [known_part(part, shape.member) for part in value]
        case "map" if isinstance(value, Mapping):
            return {key: known_part(part, shape.value) for key, part in value.items()}
    return value
