"""JSON -> model: what a user may change about an existing job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from pydantic import ConfigDict, Field, ValidationError, model_validator

from slotq_core.names import setting_of
from slotq_core.wire.base import BaseModel
from slotq_core.wire.body import invalid, json_object
from slotq_core.wire.submission import MAX_TAGS


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
        if self.held is None and not self.tags and self.give_up is None:
            raise ValueError("say what to change: held, tags or give_up")
        return self


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
