"""Members of sweeps, and the retries that replace them.

A retry of a member is a job under the member's next name (`resubmission`), in the same group. So it
counts in the sweep's `max_parallel`, and the member's name leads to it. The names of retries end
before the name of another member: a later name would be ambiguous, so such a job belongs to no
member.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice, takewhile

from slotq_core.model.groups import Group, StoredGroup
from slotq_core.model.jobs import Job, JobState, Submission
from slotq_core.ports.jobs import Groups
from slotq_core.privacy.identity import People
from slotq_core.wire.resubmission import MOST_NAMES, next_names


def latest_retry(job: Job, group: Group, read: Callable[[str], Job | None]) -> Job:
    """The latest retry of this member, or the member's own job. `read` returns a job by name. Only
    members of sweeps have retries."""
    if group.max_parallel is None:
        return job
    for name in islice(_names_of_retries(job.name, group), MOST_NAMES):
        if not ended_in_vain(job):
            break
        following = read(name)
        if following is None:
            break
        if following.group == group.name:
            job = following
    return job


def _names_of_retries(name: str, group: Group) -> Iterator[str]:
    """The names that follow this one, up to another member's, or to one that had to be cut."""
    stems = {name, name.rpartition("-r")[0]}

    def is_clear(following: str) -> bool:
        return following.rpartition("-r")[0] in stems and following not in group.members

    return takewhile(is_clear, next_names(name))


def ended_in_vain(job: Job) -> bool:
    """Whether the job has ended without completing."""
    return job.terminal and job.state is not JobState.COMPLETED


def sweep_of_retry(
    submission: Submission, job: Job, groups: Groups, *, by: str, people: People
) -> StoredGroup | None:
    """The sweep that a retry of this job joins: the job's own, if the same person submits both in
    the same project, under one of the names of retries."""
    stored = groups.get(job.group) if job.group else None
    if stored is None or stored.group.max_parallel is None:
        return None
    same_person = people.person(stored.submitter) == people.person(by)
    same = same_person and submission.project == job.project
    names = islice(_names_of_retries(job.name, stored.group), MOST_NAMES)
    return stored if same and submission.name in names else None
