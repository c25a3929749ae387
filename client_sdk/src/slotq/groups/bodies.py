"""What is sent for a new group."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from slotq.errors import InvalidRequest
from slotq.jobs.sagemaker_model import check
from slotq.jobs.submission import jsonable, with_tags
from slotq_core.wire.groups.members import compacted
from slotq_core.wire.groups.submission import LARGEST_GROUP


def rules_of(
    *,
    min_members: int | None = None,
    mandatory: Iterable[str] = (),
    same_pool: bool = False,
    ends_with: str | None = None,
    sites: Mapping[str, str] | None = None,
    heartbeat_seconds: int | None = None,
) -> dict[str, Any]:
    """The rules of a gang, without those that are the default."""
    if isinstance(mandatory, str):
        mandatory = [mandatory]
    given = {
        "min_members": min_members,
        "mandatory": [*(mandatory or ())] or None,
        "same_pool": same_pool or None,
        "ends_with": ends_with,
        "sites": dict(sites or {}) or None,
        "heartbeat_seconds": heartbeat_seconds,
    }
    return {key: value for key, value in given.items() if value is not None}


def body_of(
    name: str,
    members: Iterable[Mapping[str, Any]],
    tags: Mapping[str, str],
    **kind: int | Mapping[str, Any] | None,
) -> bytes:
    """The body of a submission; what the members share is in it once. `tags`: settings for each
    member that has none itself. `kind`: `max_parallel` of a sweep and what it tries (`sweep`), or
    `gang` with its rules; None: not given. Raises InvalidRequest; the field of a member's fault
    begins with its place."""
    requests = [jsonable(with_tags(each, tags)) for each in members]
    for number, request in enumerate(requests):
        try:
            check(request)
        except InvalidRequest as error:
            error.within(f"members.{number}")
            raise
    if not requests:
        raise InvalidRequest("a group has at least one member", field="members")
    template, differences = compacted(requests)
    given = {key: value for key, value in kind.items() if value is not None}
    group = {"name": name, **given, "template": template, "members": differences}
    body = json.dumps(group).encode()
    if len(body) > LARGEST_GROUP:
        raise InvalidRequest(
            f"the group has {len(body):,} bytes, and the limit is {LARGEST_GROUP:,}: move "
            "large values to S3, or submit several groups"
        )
    return body
