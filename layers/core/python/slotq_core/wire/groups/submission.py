"""JSON -> model: reads a new group, whose members are CreateTrainingJob requests."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic import ConfigDict, Field, ValidationError

from slotq_core import names
from slotq_core.errors import InvalidRequest
from slotq_core.model.jobs import Submission
from slotq_core.wire.body import BaseModel, invalid, json_object
from slotq_core.wire.submission import parse_submission

MOST_MEMBERS = 200
"""The most members of a group: so many are stored within one request."""

LARGEST_GROUP = 4_000_000
"""The most bytes of a group's submission. A Lambda function is given 6 MB at most."""

_OF_GANGS = ("min_members", "mandatory", "same_pool")


class GroupBody(BaseModel):
    """Independent jobs under one name, of which a limited number holds slots at once."""

    model_config = ConfigDict(extra="forbid")
    name: str = Field(pattern=names.SCHEMA["pattern"], max_length=names.LONGEST)
    """The group's name. Groups and jobs may have the same names."""
    max_parallel: int = Field(ge=1, strict=True)
    """The most members that hold slots at once."""
    members: list[dict[str, Any]] = Field(min_length=1, max_length=MOST_MEMBERS)
    """CreateTrainingJob requests with tags, as POST /add-job takes them. The queue submits all of
    them or none."""


Member = tuple[Submission, dict[str, Any]]
Members = tuple[Member, ...]


def parse_group(body: str | bytes) -> tuple[GroupBody, Members, str]:
    """Read a new group. Returns its body, its members, and the digest of the whole. Raises
    InvalidRequest; the fault of a member has the member's place in its path."""
    value = json_object(body, "a group: name, max_parallel and members", most=LARGEST_GROUP)
    _refuse_gangs(value)
    try:
        read = GroupBody.model_validate(value)
    except ValidationError as error:
        raise invalid(error) from None
    members = tuple(_member(read.name, number, it) for number, it in enumerate(read.members))
    count = Counter(submission.name for submission, _ in members)
    if again := [name for name, times in count.items() if times > 1]:
        raise InvalidRequest(f"two members are named '{again[0]}'", field="members")
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
    return read, members, hashlib.sha256(canonical.encode()).hexdigest()


def _refuse_gangs(value: Mapping[str, Any]) -> None:
    asked = [name for name in _OF_GANGS if name in value]
    if asked or "max_parallel" not in value:
        raise InvalidRequest(
            "the queue takes no gangs yet, whose members start all at once: leave out "
            f"{', '.join(_OF_GANGS)} and give max_parallel, the most members that may hold slots "
            "at once",
            field=asked[0] if asked else "max_parallel",
        )


def _member(group: str, number: int, request: Mapping[str, Any]) -> Member:
    try:
        submission, kept = parse_submission(request)
    except InvalidRequest as error:
        error.within(f"members.{number}")
        raise
    # The same request by itself is another submission.
    digest = hashlib.sha256(f"{group}\n{submission.digest}".encode()).hexdigest()
    return replace(submission, group=group, digest=digest), kept
