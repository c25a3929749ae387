"""How long an ended job stays readable: the rule that every store applies."""

from __future__ import annotations

from slotq_core.model.jobs import Job

HISTORY = 30 * 86_400_000
"""Default time (ms) for which an ended job's records are kept."""


def expires_at(job: Job, history: int) -> int | None:
    """Return when the job's records may be removed, in whole SECONDS since the epoch, as DynamoDB's
    time to live requires. None: never, because the job has not ended."""
    if not job.terminal:
        return None
    return -((job.changed_at + history) // -1000)
