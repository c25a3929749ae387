"""Model -> JSON: a group as the queue shows it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from slotq_core.model.groups import StoredGroup
from slotq_core.timestamps import iso
from slotq_core.wire.body import BaseModel
from slotq_core.wire.views import VERSION, JobView


class GroupView(BaseModel):
    """A group with its members."""

    version: int = VERSION
    name: str
    max_parallel: int | None
    """The most members that hold slots at once."""
    submitter: str
    project: str = ""
    submitted_at: str
    members: int
    """How many members were submitted. `jobs` leaves out those whose records have expired, and
    those that the caller may not see."""
    states: dict[str, int]
    """How many of `jobs` are in each state."""
    jobs: list[JobView]
    """The members, in the order of the submission, without place and reason."""


def group_view(stored: StoredGroup, jobs: Sequence[JobView]) -> GroupView:
    return GroupView(
        name=stored.group.name,
        max_parallel=stored.group.max_parallel,
        submitter=stored.submitter,
        project=stored.project,
        submitted_at=iso(stored.at),
        members=len(stored.group.members),
        states=dict(Counter(job.state for job in jobs)),
        jobs=[*jobs],
    )
