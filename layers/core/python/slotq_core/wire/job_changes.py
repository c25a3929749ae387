"""JSON -> model: what a user may change about an existing job, and changes of many in one request
with their outcomes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self

from pydantic import ConfigDict, Field, ValidationError, model_validator

from slotq_core import names
from slotq_core.model.jobs import JobState
from slotq_core.names import setting_of
from slotq_core.wire import VERSION
from slotq_core.wire.base import BaseModel, ErrorView
from slotq_core.wire.body import invalid, json_object
from slotq_core.wire.submission import MAX_TAGS
from slotq_core.wire.views.jobs import JobView

MOST_AT_ONCE = 100
"""The most changes in one request."""


class AmendmentBody(BaseModel):
    """Changes of a job. Queue settings are changed by tags, as they are given."""

    model_config = ConfigDict(extra="forbid")
    held: bool | None = Field(default=None, strict=True)
    """True: hold the job; false: release it."""
    tags: dict[str, str] = Field(default_factory=dict, max_length=MAX_TAGS)
    """Tags to add to the job's. Each replaces a tag with the same key."""
    give_up: int | None = Field(default=None, strict=True, ge=0)
    """The number of the attempt to give up. The job waits again at its place. If that attempt is
    over, nothing changes."""

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not self.amends(AMENDMENT_KEYS):
            *others, last = AMENDMENT_KEYS
            raise ValueError(f"say what to change: {', '.join(others)} or {last}")
        return self

    def amends(self, keys: Iterable[str]) -> bool:
        """Whether it changes something by one of these keys."""
        return any(getattr(self, key) not in (None, {}) for key in keys)


AMENDMENT_KEYS = tuple(AmendmentBody.model_fields)
"""The keys of a change that leaves the job in the queue."""


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
        amends = self.amends(key for key in AMENDMENT_KEYS if key != "tags" or not self.retry)
        if self.cancel + self.retry + amends != 1 or (self.new_name is not None and not self.retry):
            *others, last = AMENDMENT_KEYS
            raise ValueError(
                "say what to change: cancel alone, retry (with tags and new_name if you like), "
                f"or any of {', '.join(others)} and {last}"
            )
        return self


class BulkBody(BaseModel):
    """Changes of jobs, in this order."""

    model_config = ConfigDict(extra="forbid")
    changes: list[ChangeBody] = Field(min_length=1, max_length=MOST_AT_ONCE)


class OutcomeView(BaseModel):
    """The outcome of one change or submission: the job after it, or the error."""

    name: str
    """The name in the request."""
    job: JobView | None = None
    """For a retry, the new job."""
    error: ErrorView | None = None
    """The error, as in the answer for this job alone. `unavailable`: the time ran out before this
    one; send it again."""
    status: int | None = None
    """The HTTP status of the answer for this job alone. Null from queues before 0.3."""
    retry_after: int | None = None
    """Seconds after which to send this one again, if a limit has refused it."""


class OutcomesView(BaseModel):
    version: int = VERSION
    outcomes: list[OutcomeView]
    """One outcome for each change or job, in the request's order."""


def parse_changes(body: str | bytes) -> list[ChangeBody]:
    """Read the changes. Raises InvalidRequest with the faulty field; then nothing is changed."""
    try:
        return BulkBody.model_validate(json_object(body, what="changes of jobs")).changes
    except ValidationError as error:
        raise invalid(error) from None


def parse_amendment(body: str | bytes) -> AmendmentBody:
    """Read an amendment. Raises InvalidRequest with the faulty field."""
    try:
        return AmendmentBody.model_validate(json_object(body, what="the job's changes"))
    except ValidationError as error:
        raise invalid(error) from None


def retagged(request: Mapping[str, Any], tags: Mapping[str, str]) -> dict[str, Any]:
    """The request with these tags added. Each replaces a tag of the same setting."""
    changed = {setting_of(key) for key in tags}
    kept = [tag for tag in request.get("Tags") or () if setting_of(tag["Key"]) not in changed]
    added = [{"Key": key, "Value": value} for key, value in tags.items()]
    return {**request, "Tags": [*kept, *added]}
