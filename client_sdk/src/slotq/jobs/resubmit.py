"""Submit a job again that has ended without completing.

A name is used only once, so that a job's history stays. A retry is therefore a new job with the
same request under the next name: `train` becomes `train-r2`, `train-r2` becomes `train-r3`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count, islice
from typing import Protocol

from slotq.errors import InvalidRequest, NameTaken
from slotq.jobs.follow import ended
from slotq_core.model.jobs import JobState
from slotq_core.wire.views import JobView

LONGEST_NAME = 63
"""SageMaker's limit for TrainingJobName."""
MOST_NAMES = 20
"""Number of names to try; if all are taken, the user has to choose one."""

_NUMBERED = re.compile(r"(?P<base>.+)-r(?P<number>[2-9]|[1-9][0-9]+)")


class Queue(Protocol):
    """The methods of QueueClient used here."""

    def job(self, name: str) -> JobView: ...
    def clone(self, name: str, new_name: str, *, priority: int | None = None) -> JobView: ...


def retry(
    queue: Queue, name: str, new_name: str | None = None, *, priority: int | None = None
) -> JobView:
    """Submit the job's request again under `new_name`, or else under its next free name.

    Raises NoSuchJob, InvalidRequest (the job has not ended, or has completed), NameTaken, and what
    a submission raises. Two concurrent retries give the same job: while that job lives, submitting
    the same request under its name again returns the job.
    """
    _refuse(queue.job(name))
    if new_name is not None:
        return queue.clone(name, new_name, priority=priority)
    for candidate in islice(next_names(name), MOST_NAMES):
        try:
            return queue.clone(name, candidate, priority=priority)
        except NameTaken:
            continue
    raise NameTaken(
        f"the names up to {candidate} are taken; choose a name",
        field="TrainingJobName",
    )


def next_names(name: str) -> Iterator[str]:
    """The names that follow `name`, without end."""
    found = _NUMBERED.fullmatch(name)
    base, number = (found["base"], int(found["number"])) if found else (name, 1)
    for following in count(number + 1):
        mark = f"-r{following}"
        yield base[: LONGEST_NAME - len(mark)].rstrip("-") + mark


def _refuse(job: JobView) -> None:
    if not ended(job):
        raise InvalidRequest(
            f"job {job.name} is {job.state}: only an ended job can be retried (`slotq requeue "
            f"{job.name}` stops its attempt, and the job waits again)",
            field="name",
        )
    if job.state == JobState.COMPLETED:
        raise InvalidRequest(
            f"job {job.name} has completed; `slotq clone {job.name} NEW_NAME` runs it again",
            field="name",
        )
