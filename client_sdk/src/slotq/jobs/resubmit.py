"""Submit a job again that has ended without completing, request by request.

One job is retried so, and every job where the caller may not change jobs in bulk. The rules are
those of the queue's own retry (`slotq_core.resubmission`).
"""

from __future__ import annotations

from typing import Protocol

from slotq.errors import NameTaken
from slotq_core.resubmission import all_taken, check_ended_in_vain, names_to_try
from slotq_core.wire.views import JobView


class Queue(Protocol):
    """The methods of QueueClient used here."""

    def job(self, name: str) -> JobView: ...
    def clone(
        self,
        name: str,
        new_name: str,
        *,
        priority: int | str | None = None,
        project: str | None = None,
        resume: bool = False,
    ) -> JobView: ...


def retry(
    queue: Queue,
    name: str,
    new_name: str | None = None,
    *,
    priority: int | str | None = None,
    project: str | None = None,
) -> JobView:
    """Submit the job's request again under `new_name`, or else under its next free name.

    Raises NoSuchJob, InvalidRequest (the job has not ended, or has completed), NameTaken, and what
    a submission raises. Two concurrent retries give the same job: while that job lives, submitting
    the same request under its name again returns the job.
    """
    check_ended_in_vain(name, queue.job(name).state)
    if new_name is not None:
        return queue.clone(name, new_name, priority=priority, project=project, resume=True)
    for candidate in names_to_try(name):
        try:
            return queue.clone(name, candidate, priority=priority, project=project, resume=True)
        except NameTaken:
            continue
    raise all_taken(name)
