"""What the page asks that the queue's API does not have: POST below /own, in the API's form."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from slotq.client import QueueClient
from slotq.errors import NotAllowed, Refused, SlotQError
from slotq.ui import starts, verbs, what_if
from slotq.ui.relay import Reply, failure, refusal

Body = TypeVar("Body", bound=BaseModel)


class OwnCalls:
    def __init__(self, queue: QueueClient) -> None:
        change, many = what_if.WhatIf(queue), verbs.Verbs(queue)
        self._posts: Mapping[str, Callable[[bytes], Reply]] = {
            "/own/whatif": _answering(what_if.WhatIfBody, change.answer),
            "/own/whatif/apply": _answering(what_if.ApplyBody, change.apply),
            "/own/start": _answering(starts.StartBody, starts.Starts(queue.service).answer),
            "/own/jobs": _answering(verbs.ManyBody, many.many),
            "/own/clone": _answering(verbs.CloneBody, many.clone),
        }

    def at(self, path: str) -> Callable[[bytes], Reply] | None:
        """What answers a POST of a body to this path; None: nothing does."""
        return self._posts.get(path)


def _answering(
    body: type[Body], answer: Callable[[Body], Mapping[str, Any]]
) -> Callable[[bytes], Reply]:
    def reply(content: bytes) -> Reply:
        """Every failure becomes an answer in the API's form."""
        try:
            asked = body.model_validate_json(content)
        except ValidationError as error:
            fault = error.errors(include_input=False, include_url=False)[0]
            field = ".".join(str(part) for part in fault["loc"])
            said = f"{field}: {fault['msg']}" if field else str(fault["msg"])
            return refusal(400, "invalid_request", said)
        try:
            return Reply(status=200, body=json.dumps(answer(asked)).encode())
        except Refused as error:
            return refusal(error.status, error.code, error.message)
        except NotAllowed as error:
            return refusal(403, "not_allowed", str(error))
        except SlotQError as error:
            return failure(error)

    return reply
