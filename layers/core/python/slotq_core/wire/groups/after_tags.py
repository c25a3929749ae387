"""What a group's body says that all members come after, as tags of each member.

The stored request of a job is what a clone or a retry submits again, so it has to say this too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from slotq_core import names
from slotq_core.errors import InvalidRequest
from slotq_core.model.jobs import Submission


def with_after_tags(request: Mapping[str, Any], submission: Submission) -> dict[str, Any]:
    """The request with all that the submission comes after in its tags. Raises InvalidRequest if it
    has too many tags then."""
    after = {names.AFTER_TAG: submission.after, names.AFTER_ANY_TAG: submission.after_any}
    others = [tag for tag in request.get("Tags") or () if names.setting_of(tag["Key"]) not in after]
    tags = [*others, *(tag for key, jobs in after.items() for tag in _tags(key, jobs))]
    if len(tags) > names.MAX_TAGS:
        raise InvalidRequest(
            f"with what it comes after the job has {len(tags)} tags, and the limit is "
            f"{names.MAX_TAGS}: give it fewer tags, or let it come after a group instead of its "
            "jobs",
            field="Tags",
        )
    return {**request, "Tags": tags}


def _tags(key: str, jobs: Sequence[str]) -> Iterator[dict[str, str]]:
    # Too many jobs for these tags are too many for a job: its submission is refused.
    for tag, value in zip(names.numbered_tags(key), names.packed(jobs), strict=False):
        yield {"Key": tag, "Value": value}
