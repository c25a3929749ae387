"""JSON <-> model: changes of many jobs in one request, and what became of each."""

from __future__ import annotations

from typing import Self

from pydantic import ConfigDict, Field, ValidationError, model_validator

from slotq_core import names
from slotq_core.model.jobs import JobState
from slotq_core.wire.amendment import AmendmentBody
from slotq_core.wire.body import BaseModel, invalid, json_object
from slotq_core.wire.views import VERSION, ErrorView, JobView

MOST_AT_ONCE = 100
"""Changes in one request."""


class ChangeBody(AmendmentBody):
    """What shall be different about one job: as PATCH /jobs/{name} takes it, or that it is
    cancelled."""

    name: str = Field(max_length=names.LONGEST)
    cancel: bool = Field(default=False, strict=True)
    """It is not wanted any more; then nothing else is wanted."""
    states: list[JobState] = Field(default=list(JobState))
    """Only while it is in one of these: one that has moved on meanwhile is too late."""

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        amends = self.held is not None or self.tags or self.give_up is not None
        if bool(amends) == self.cancel:
            raise ValueError("say what shall change: cancel alone, or any of held, tags, give_up")
        return self


class BulkBody(BaseModel):
    """Changes of jobs, in this order."""

    model_config = ConfigDict(extra="forbid")
    changes: list[ChangeBody] = Field(min_length=1, max_length=MOST_AT_ONCE)


class OutcomeView(BaseModel):
    """What became of one change: the job as it then stood, or the error that kept it as it was."""

    name: str
    job: JobView | None = None
    error: ErrorView | None = None
    """As the answer for this job alone would carry it. `unavailable`: its turn did not come; send
    it again."""


class OutcomesView(BaseModel):
    version: int = VERSION
    outcomes: list[OutcomeView]
    """One for each change, in the order of the request."""


def parse_changes(body: str | bytes) -> list[ChangeBody]:
    """Raises InvalidRequest with the field at fault; then nothing is changed."""
    try:
        return BulkBody.model_validate(json_object(body, what="changes of jobs")).changes
    except ValidationError as error:
        raise invalid(error) from None
