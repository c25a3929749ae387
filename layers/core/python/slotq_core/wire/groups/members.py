"""The members of a group, or of a batch of jobs, that share a template: each contains only its
differences.

A member is a JSON Merge Patch (RFC 7396) of the template: objects merge key by key, null removes a
key, and anything else replaces. So a thousand members of one sweep are a small body.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import ConfigDict, Field, ValidationError

from slotq_core import names
from slotq_core.errors import InvalidRequest
from slotq_core.model.jobs import Submission
from slotq_core.wire.base import BaseModel
from slotq_core.wire.body import MAX_BODY, invalid, json_object
from slotq_core.wire.submission import parse_submission
from slotq_core.wire.training.processing_request import NAME, TRAINING_NAME
from slotq_core.wire.training.training_request import RequestCheck

LARGEST_BODY = 4_000_000
"""The most bytes of a submission of many jobs. A Lambda function is given 6 MB at most."""

MOST_JOBS = 500
"""The most jobs of a batch: so many are read and stored within one request, and their answers fit
into one."""

LARGEST_EXPANDED = 10_000_000
"""The most bytes of all members together, each with the shared part."""

MOST_GROWTH = 20
"""The most bytes that one byte of a body may become, beyond the size of one job's request
(MAX_BODY). So the work for a group is proportional to the size of its submission."""

Json = Mapping[str, Any]


class BatchBody(BaseModel):
    """Jobs that have nothing in common but the request that submits them."""

    model_config = ConfigDict(extra="forbid")
    template: dict[str, Any] | None = None
    """The fields that the jobs share: a CreateTrainingJob request, or a part of one."""
    jobs: list[dict[str, Any]] = Field(min_length=1, max_length=MOST_JOBS)
    """CreateTrainingJob requests with tags, as POST /add-job takes them. With a template each
    contains only its differences: objects merge key by key, null removes."""


ReadJob = tuple[Submission, dict[str, Any]] | InvalidRequest
"""A job of a batch, or its faults."""


def parse_batch(body: str | bytes) -> list[tuple[str, ReadJob]]:
    """Read a batch: each job with its name as sent. Raises InvalidRequest if the whole cannot be
    read; the faults of one job are its own."""
    value = json_object(body, "a batch: jobs, and a template if you like", most=LARGEST_BODY)
    try:
        read = BatchBody.model_validate(value)
    except ValidationError as error:
        raise invalid(error) from None
    sent = len(body.encode() if isinstance(body, str) else body)
    shared = {"template": read.template}
    check_growth(shared, members=len(read.jobs), sent=sent, what="batch")
    check = RequestCheck()
    return [_job(read.template or {}, job, check) for job in read.jobs]


def _job(template: Json, patch: Json, check: RequestCheck) -> tuple[str, ReadJob]:
    request = merged(template, patch)
    name = request.get(TRAINING_NAME) or request.get(NAME)
    shown = name[: names.LONGEST] if isinstance(name, str) else ""
    try:
        return shown, parse_submission(request, check, alone=False)
    except InvalidRequest as error:
        return shown, error


def expanded(template: Json | None, members: Sequence[Json]) -> list[dict[str, Any]]:
    """The members as whole requests. What a member shares with the template is the same object, not
    a copy. The caller checks first how large they become (`check_growth`)."""
    return [merged(template or {}, member) for member in members]


def check_growth(shared: Json, *, members: int, sent: int, what: str = "group") -> None:
    """Check what a body of `sent` bytes becomes when each of its members gets what they share: the
    values of `shared`, by the body's field. Takes time for the shared values alone. Raises
    InvalidRequest with the largest of these fields."""
    sizes = {field: json_size(value) for field, value in shared.items() if value}
    if not sizes:
        return
    largest, size = max(sizes.items(), key=lambda item: item[1])
    most = most_expanded(sent)
    if (together := _together(sum(sizes.values()), members, sent)) > most or size > MAX_BODY:
        raise InvalidRequest(
            f"the {largest} has {size:,} bytes, which is too much for {members:,} members: the "
            f"{what} would become {together:,} bytes, and the limit is {most:,}: {MOST_GROWTH} "
            f"times the {sent:,} bytes of the body, at least {MAX_BODY:,} and at most "
            f"{LARGEST_EXPANDED:,}. Move large values to S3, write some members whole, or submit "
            "fewer at once",
            field=largest,
        )


def most_expanded(sent: int) -> int:
    """The most bytes that a body of `sent` bytes may become."""
    return min(LARGEST_EXPANDED, max(MAX_BODY, MOST_GROWTH * sent))


def json_size(value: object) -> int:
    """The bytes of a value as JSON without spaces."""
    return len(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode())


def _together(shared: int, members: int, sent: int) -> int:
    """The bytes of the members with what they share; at most `shared` too many."""
    return shared * members + sent


def merged(whole: Json, patch: Json) -> dict[str, Any]:
    """The object with the patch merged into it. Neither is changed."""
    found = dict(whole)
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        elif isinstance(value, Mapping):
            own = found.get(key)
            found[key] = merged(own if isinstance(own, Mapping) else {}, value)
        else:
            found[key] = value
    return found


def compacted(requests: Sequence[Json]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A template and members that expand to these requests. The requests hold no null.

    As many members as needed are written whole, for a body that may become so large
    (`most_expanded`). A group that is too large in itself stays so.
    """
    template = _common(requests)
    members = [_difference(template, request) for request in requests]
    shared = json_size(template)
    sent = shared + sum(map(json_size, members))
    for number, request in enumerate(requests):
        if _together(shared, len(requests), sent) <= max(MAX_BODY, MOST_GROWTH * sent):
            break
        sent += json_size(request) - json_size(members[number])
        members[number] = dict(request)
    return template, members


def _common(objects: Sequence[Json]) -> dict[str, Any]:
    """The common part of all objects."""
    first, *others = objects
    shared: dict[str, Any] = {}
    for key, value in first.items():
        if not all(key in other for other in others):
            continue
        rest = [other[key] for other in others]
        if isinstance(value, Mapping) and all(isinstance(other, Mapping) for other in rest):
            shared[key] = _common([value, *rest])
        elif all(_alike(other, value) for other in rest):
            shared[key] = value
    return shared


def _alike(one: object, other: object) -> bool:
    """Whether two values are the same JSON. Python takes 1, 1.0 and true for equal."""
    return one == other and json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _difference(template: Json, whole: Json) -> dict[str, Any]:
    return dict(_differences(template, whole))


def _differences(template: Json, whole: Json) -> Iterator[tuple[str, Any]]:
    for key, value in whole.items():
        own = template.get(key)
        if isinstance(value, Mapping) and isinstance(own, Mapping):
            if patch := _difference(own, value):
                yield key, patch
        elif key not in template:
            yield key, value


def with_after_tags(request: Mapping[str, Any], submission: Submission) -> dict[str, Any]:
    """The request with all dependencies of the submission in its tags: a group's body may have some
    for all members, and a clone or a retry submits the stored request again. Raises InvalidRequest
    if the request then has too many tags."""
    after = {names.AFTER_TAG: submission.after, names.AFTER_ANY_TAG: submission.after_any}
    others = [tag for tag in request.get("Tags") or () if names.setting_of(tag["Key"]) not in after]
    tags = [*others, *(tag for key, jobs in after.items() for tag in _after_tags(key, jobs))]
    if len(tags) > names.MAX_TAGS:
        raise InvalidRequest(
            f"with what it comes after the job has {len(tags)} tags, and the limit is "
            f"{names.MAX_TAGS}: give it fewer tags, or let it come after a group instead of its "
            "jobs",
            field="Tags",
        )
    return {**request, "Tags": tags}


def _after_tags(key: str, jobs: Sequence[str]) -> Iterator[dict[str, str]]:
    # Too many jobs for these tags are too many for a job: its submission is refused.
    for tag, value in zip(names.numbered_tags(key), names.packed(jobs), strict=False):
        yield {"Key": tag, "Value": value}
