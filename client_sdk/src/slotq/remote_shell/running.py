"""Which jobs can be entered, and what to tell of the others."""

from __future__ import annotations

from slotq.client import QueueClient
from slotq.errors import NoShell
from slotq_core.model.jobs import ACTIVE_STATES, WAITING_STATES, JobState
from slotq_core.wire.views.jobs import JobView


class NotYet(NoShell):
    """The attempt runs, but its container cannot be entered yet; the message says why."""

    def __init__(self, message: str, *, patience: float = 300.0) -> None:
        """`patience`: seconds after which waiting for the same attempt makes no sense."""
        super().__init__(message)
        self.patience = patience


def running_job(client: QueueClient, name: str) -> JobView:
    """The job, if it runs as a training job. Raises NoShell, NoSuchJob."""
    job = client.jobs.view(name)
    if runs(job):
        return job
    why = f"job {name} is {job.state}: a shell needs a running job"
    if job.state in WAITING_STATES:
        raise NoShell(
            f"{why}; `slotq why {name}` explains what it waits for, `slotq shell {name} --wait` "
            "waits too"
        )
    if job.state in ACTIVE_STATES:
        raise NoShell(why)
    raise NoShell(f"{why}; `slotq logs {name}` shows what it printed")


def runs(job: JobView) -> bool:
    return job.state == JobState.RUNNING and bool(job.training_job)
