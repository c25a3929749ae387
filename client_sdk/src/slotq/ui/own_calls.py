"""Calls of the page that the queue's API lacks: POST below /own, in the API's form. Two of them
make several calls of the API: a verb for many jobs, and clone."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from slotq.client import QueueClient
from slotq.errors import InvalidRequest, NotAllowed, Refused, SlotQError
from slotq.ui import what_if
from slotq.ui.relay import Reply, failure, refusal
from slotq.ui.what_if import priority_of
from slotq_core.wire.verbs import BY_NAME, Takes, Verb

MOST_OF_A_GROUP = 1000
"""The most jobs of one call: a whole group."""


class ManyBody(BaseModel):
    """One verb for many jobs."""

    model_config = ConfigDict(extra="forbid")
    verb: str
    """A verb that the page offers for a group."""
    names: list[str] = Field(min_length=1, max_length=MOST_OF_A_GROUP)
    states: list[str] = Field(min_length=1, max_length=20)
    """Only jobs that are still in one of these states are changed."""
    priority: str = ""


class CloneBody(BaseModel):
    """A job's request, submitted once more."""

    model_config = ConfigDict(extra="forbid")
    name: str
    new_name: str
    priority: str = ""
    """A number or a class; empty: the first job's."""
    project: str = ""
    """Empty: the first job's."""


class Verbs:
    def __init__(self, queue: QueueClient) -> None:
        self._queue = queue

    def many(self, asked: ManyBody) -> dict[str, Any]:
        """How many jobs were changed, and each refusal with its job. Raises SlotQError where none
        could be reached."""
        jobs = self._queue.many(asked.names, states=asked.states)
        outcomes = jobs.do(*_wanted(asked))
        refused = [
            {"job": outcome.name, "message": str(outcome.error)}
            for outcome in outcomes
            if outcome.error
        ]
        return {"changed": len(outcomes) - len(refused), "refused": refused}

    def clone(self, asked: CloneBody) -> dict[str, Any]:
        """The new job. Raises SlotQError: NotAllowed where the request is not shown whole to the
        caller."""
        job = self._queue.jobs.clone(
            asked.name,
            asked.new_name,
            priority=priority_of(asked.priority) if asked.priority.strip() else None,
            project=asked.project.strip() or None,
        )
        return job.model_dump()


def _wanted(asked: ManyBody) -> tuple[Verb, str | int | None]:
    """The verb, and what it takes. Raises InvalidRequest."""
    verb = BY_NAME.get(asked.verb)
    if verb is None or not verb.of_a_group:
        known = ", ".join(verb.name for verb in BY_NAME.values() if verb.of_a_group)
        raise InvalidRequest(f"the verbs for many jobs are {known}", field="verb")
    priority = asked.priority.strip()
    if verb.takes is Takes.PRIORITY:
        if not priority:
            raise InvalidRequest("give a priority: a number or a class", field="priority")
        return verb, priority_of(priority)
    return verb, priority if verb.takes else None


Body = TypeVar("Body", bound=BaseModel)


class OwnCalls:
    def __init__(self, queue: QueueClient) -> None:
        change, many = what_if.WhatIf(queue), Verbs(queue)
        self._posts: Mapping[str, Callable[[bytes], Reply]] = {
            "/own/whatif": _answering(what_if.WhatIfBody, change.answer),
            "/own/whatif/apply": _answering(what_if.ApplyBody, change.apply),
            "/own/start": _answering(what_if.StartBody, what_if.Starts(queue.service).answer),
            "/own/jobs": _answering(ManyBody, many.many),
            "/own/clone": _answering(CloneBody, many.clone),
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
