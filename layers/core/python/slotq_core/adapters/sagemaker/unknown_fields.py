"""Fields of CreateTrainingJob that this botocore does not know are sent all the same.

The door lets them pass: a user's SDK may be newer than the queue, and what such a field means is
SageMaker's business. botocore would refuse the whole request, so it is given the fields that it
knows, and what it makes of them is replaced by the whole request before it is signed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_WHOLE = "slotq_whole_request"


def send_unknown_fields(events: Any) -> None:
    """`events`: those of a SageMaker client."""
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
    """The value without the fields that the shape does not have. What is of another type than the
    shape stays, for botocore to refuse."""
    match shape.type_name:
        case "structure" if isinstance(value, Mapping):
            members = shape.members
            return {
                name: known_part(each, members[name])
                for name, each in value.items()
                if name in members
            }
        case "list" if isinstance(value, list):
            return [known_part(each, shape.member) for each in value]
        case "map" if isinstance(value, Mapping):
            return {key: known_part(each, shape.value) for key, each in value.items()}
    return value
