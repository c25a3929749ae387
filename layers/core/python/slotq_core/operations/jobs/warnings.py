"""What the user of a job should know before it is too late, as sentences."""

from __future__ import annotations

from collections.abc import Iterator

from slotq_core.model.jobs import Job
from slotq_core.operations.status import Status
from slotq_core.requests.checkpoints import loses_its_work, warning


def warnings_of(status: Status) -> Iterator[str]:
    """Yield what concerns the job now. A job that has ended has nothing to fear."""
    yield from status.notices
    if not status.job.terminal and loses_its_work(status.job):
        yield warning(status.job)


def slow_save(job: Job, *, took: int, grace: int) -> str:
    """Return what to do about a last save of the job that took (ms) longer than its pool waits
    between asking and stopping (`suspend_grace`, ms); empty if it is fast enough, or never
    asked."""
    if not 0 < grace < took:
        return ""
    return (
        f"the last save of {job.name} took {_seconds(took)} s, and its pool waits only "
        f"{_seconds(grace)} s before it stops a job: what the script has done since its last save "
        "is then lost. Save more often, less, or asynchronously, or ask for a longer suspend_grace"
    )


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds / 1000:,.0f}" if milliseconds >= 10_000 else f"{milliseconds / 1000:.1f}"
