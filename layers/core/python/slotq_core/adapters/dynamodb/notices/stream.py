"""Changes of jobs, as the table's stream tells them.

DynamoDB tells each committed change of an item at least once, in order for each item, with the item
before and after. So whatever crashes, a change of a job is told: nothing is added to the
transactions that make it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slotq_core.adapters.dynamodb.layout import table
from slotq_core.adapters.dynamodb.layout.validation import whole_job
from slotq_core.errors import NotUnderstood
from slotq_core.model.jobs import Job

SOURCE = "aws:dynamodb"
VIEW = "NEW_AND_OLD_IMAGES"
"""What the stream has of each change."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobChange:
    """A job before and after a change."""

    before: Job | None
    after: Job


def sequence_of(record: Mapping[str, Any]) -> str:
    """Return the record's number in its shard."""
    return str(record["dynamodb"]["SequenceNumber"])


def change_in(record: Mapping[str, Any]) -> JobChange | None:
    """Return the change of a job; None if the record is about another item, or a job's removal.
    Raises NotUnderstood."""
    said = record["dynamodb"]
    if said["Keys"]["sk"]["S"] != table.JOB or "NewImage" not in said:
        return None
    before, after = whole_job(said.get("OldImage")), whole_job(said["NewImage"])
    if after is None or (before is None and "OldImage" in said):
        name = said["Keys"]["pk"]["S"].partition("#")[2]
        raise NotUnderstood(f"a change of job {name[:63]} cannot be read")
    return JobChange(before=before, after=after)
