"""How long what has ended stays readable: the rule that every store applies."""

from __future__ import annotations

from slotq_core.model.jobs import Job

HISTORY = 30 * 86_400_000
"""How long an ended job's records are kept (ms), unless the store is told otherwise."""


def expires_at(job: Job, history: int) -> int | None:
    """When the records of the job may go, in whole SECONDS since the epoch, as DynamoDB's time to
    live counts; None: never, for it has not ended."""
    if not job.terminal:
        return None
    return -((job.changed_at + history) // -1000)
