"""What the user of a job should know before it is too late, as sentences."""

from __future__ import annotations

from collections.abc import Iterator

from slotq_core.admission.waits_for_change import beyond_alone
from slotq_core.model.jobs import Job
from slotq_core.operations.status import Status
from slotq_core.policy.lifecycle.stall import warned_of
from slotq_core.ports.stored import Configuration
from slotq_core.requests.checkpoints import loses_its_work, warning


def warnings_of(status: Status) -> Iterator[str]:
    """Yield what concerns the job now. A job that has ended has nothing to fear."""
    yield from status.notices
    if status.job.terminal:
        return
    if loses_its_work(status.job):
        yield warning(status.job)
    if stalled := warned_of(status.job):
        yield stalled.sentence()
    if status.attempts and (unreleased := status.attempts[-1].warning):
        yield f"attempt {status.attempts[-1].number}: {unreleased}"


def notices_of_bounds(job: Job, stand: Configuration) -> tuple[str, ...]:
    """Return the warning of a new or changed job that waits until the configuration changes."""
    why = beyond_alone(job, stand.pools, stand.sharing)
    return (f"the job waits until the configuration changes: {why.sentence()}",) if why else ()
