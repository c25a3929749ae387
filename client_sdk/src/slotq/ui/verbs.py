"""Verbs of the command line for which the API has no single call: one for many jobs, and clone."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from slotq.client import QueueClient
from slotq.errors import InvalidRequest
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
            {"job": each.name, "message": str(each.error)} for each in outcomes if each.error
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
        known = ", ".join(it.name for it in BY_NAME.values() if it.of_a_group)
        raise InvalidRequest(f"the verbs for many jobs are {known}", field="verb")
    given = asked.priority.strip()
    if verb.takes is Takes.PRIORITY:
        if not given:
            raise InvalidRequest("give a priority: a number or a class", field="priority")
        return verb, priority_of(given)
    return verb, given if verb.takes else None
