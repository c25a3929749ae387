"""JSON <-> model: changes of many jobs in one request, and their outcomes."""

from __future__ import annotations

from typing import Self

from pydantic import ConfigDict, Field, ValidationError, model_validator

from slotq_core import names
from slotq_core.model.jobs import JobState
from slotq_core.wire.amendment import AmendmentBody
from slotq_core.wire.base import VERSION, BaseModel
from slotq_core.wire.body import invalid, json_object
from slotq_core.wire.views.errors import ErrorView
from slotq_core.wire.views.jobs import JobView

MOST_AT_ONCE = 100
"""The most changes in one request."""


class ChangeBody(AmendmentBody):
    """Changes of one job, as PATCH /jobs/{name} takes them, or its cancellation or retry."""

    name: str = Field(max_length=names.LONGEST)
    cancel: bool = Field(default=False, strict=True)
    """Cancel the job. Excludes every other change."""
    retry: bool = Field(default=False, strict=True)
    """Submit the request of a job that has ended without completing again, as another job of the
    caller's, with these `tags` added. Excludes every other change. Only for the person who
    submitted the job, if the request has fields that are not shown to others."""
    new_name: str | None = Field(default=None, max_length=names.LONGEST)
    """With `retry`: the new job's name. Without it, the next free one of `<name>-r2`,
    `<name>-r3` …"""
    states: list[JobState] = Field(default=list(JobState), max_length=len(JobState))
    """The change applies only while the job is in one of these states."""

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        amends = self.held is not None or self.give_up is not None
        if not self.retry:
            amends = amends or bool(self.tags)
        if self.cancel + self.retry + amends != 1 or (self.new_name is not None and not self.retry):
            raise ValueError(
                "say what to change: cancel alone, retry (with tags and new_name if you like), "
                "or any of held, tags and give_up"
            )
        return self


class BulkBody(BaseModel):
    """Changes of jobs, in this order."""

    model_config = ConfigDict(extra="forbid")
    changes: list[ChangeBody] = Field(min_length=1, max_length=MOST_AT_ONCE)


class OutcomeView(BaseModel):
    """The outcome of one change: the job after it, or the error."""

    name: str
    """The name in the change."""
    job: JobView | None = None
    """For a retry, the new job."""
    error: ErrorView | None = None
    """The same error as the answer for this job alone. `unavailable`: the time ran out before this
    change; send it again."""


class OutcomesView(BaseModel):
    version: int = VERSION
    outcomes: list[OutcomeView]
    """One outcome for each change, in the request's order."""


def parse_changes(body: str | bytes) -> list[ChangeBody]:
    """Read the changes. Raises InvalidRequest with the faulty field; then nothing is changed."""
    try:
        return BulkBody.model_validate(json_object(body, what="changes of jobs")).changes
    except ValidationError as error:
        raise invalid(error) from None
