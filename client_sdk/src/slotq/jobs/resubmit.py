"""Submit a job again that has ended without completing, request by request.

One job is retried so, and every job where the caller may not change jobs in bulk. The rules are
those of the queue's own retry (`slotq_core.wire.resubmission`). A member of a group is left to that
one: only the queue can give a retry its place in a sweep.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from slotq.errors import NameTaken, NotAllowed, UnexpectedAnswer
from slotq.jobs.submission import settings_tags
from slotq.transport.refusals import of_one
from slotq_core.wire.resubmission import all_taken, check_ended_in_vain, names_to_try
from slotq_core.wire.views.jobs import JobView

if TYPE_CHECKING:
    from slotq.jobs.job_calls import JobCalls

Patiently = Callable[[Callable[[], JobView]], JobView]
"""Makes a call again when the caller may submit again."""


def retry(
    jobs: JobCalls,
    name: str,
    new_name: str | None = None,
    *,
    priority: int | str | None = None,
    project: str | None = None,
    patiently: Patiently,
) -> JobView:
    """Submit the job's request again under `new_name`, or else under its next free name.

    Raises NoSuchJob, InvalidRequest (the job has not ended, or has completed), NameTaken, and what
    a submission raises. Two concurrent retries give the same job: while that job lives, submitting
    the same request under its name again returns the job.
    """
    job = jobs.view(name)
    check_ended_in_vain(name, job.state)
    if new_name is not None:
        return jobs.clone(name, new_name, priority=priority, project=project, resume=True)
    if job.group:
        tags = settings_tags(priority=priority, project=project)
        with suppress(NotAllowed, UnexpectedAnswer):  # The caller may not change jobs in bulk.
            return patiently(lambda: _in_its_group(jobs, name, tags))
    for candidate in names_to_try(name):
        try:
            return jobs.clone(name, candidate, priority=priority, project=project, resume=True)
        except NameTaken:
            continue
    raise all_taken(name)


def _in_its_group(jobs: JobCalls, name: str, tags: Mapping[str, str]) -> JobView:
    (outcome,) = jobs.change([{"name": name, "retry": True, "tags": tags}])
    if outcome.error is not None:
        raise of_one(outcome.error)
    assert outcome.job is not None
    return outcome.job
