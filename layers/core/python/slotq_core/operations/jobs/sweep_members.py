"""The members of a sweep as they now stand: a retry stands in the place of what it repeats.

A retry of a member is a job under the member's next name (`resubmission`), in the same group. So it
counts in the sweep's `max_parallel`, and whoever knows the member finds it.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

from slotq_core.model.groups import Group, StoredGroup
from slotq_core.model.jobs import Job, JobState, Submission
from slotq_core.ports.store import Store
from slotq_core.resubmission import MOST_NAMES, next_names


def standing_for(job: Job, group: Group, read: Callable[[str], Job | None]) -> Job:
    """The job that stands for this member: its own, or its latest retry. `read` returns a job by
    name. Only members of sweeps have retries."""
    if group.max_parallel is None:
        return job
    for name in islice(next_names(job.name), MOST_NAMES):
        if not ended_in_vain(job):
            break
        following = read(name)
        if following is None:
            break
        if following.group == group.name:
            job = following
    return job


def ended_in_vain(job: Job) -> bool:
    """Whether the job has ended without completing."""
    return job.terminal and job.state is not JobState.COMPLETED


def sweep_of_retry(
    submission: Submission, job: Job, store: Store, *, by: str
) -> StoredGroup | None:
    """The sweep that the repetition of this job belongs to: that of the job, if the same person
    submits both, and in the same project."""
    stored = store.groups.get(job.group) if job.group else None
    if stored is None or stored.group.max_parallel is None:
        return None
    same = stored.submitter == by and submission.project == job.project
    return stored if same else None
