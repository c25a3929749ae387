"""What has become of a gang's members: the rule that every store applies."""

from __future__ import annotations

from slotq_core.model.groups import StoredGroup
from slotq_core.model.jobs import Job, JobState


def end_of(job: Job | None, stored: StoredGroup, *, now: int, history: int) -> JobState | None:
    """Return how a member has ended; None if it has not. `job`: the job of the member's name, None
    if there is none. `history`: how long ended jobs stay readable (ms).

    A member without a record has ended long ago, and nobody knows how: it counts as cancelled, so
    that nobody waits for it. In a young group, it has not been submitted yet.
    """
    if job is not None and job.group == stored.group.name:
        return job.state if job.terminal else None
    return JobState.CANCELLED if now - stored.at >= history else None
