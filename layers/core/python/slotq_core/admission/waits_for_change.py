"""What a new job waits for until the configuration changes. "More than a project's quota or limit
waits, for those change": such a job is not refused, so its user is warned.

The policy says it, for a queue with no other job.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from slotq_core.model.jobs import Job, JobState
from slotq_core.model.pools import Pool
from slotq_core.model.projects import Department, Project
from slotq_core.model.reasons import LimitReached, QuotaExceeded, Reason
from slotq_core.model.sharing import Sharing
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.cycle import plan


def beyond_alone(job: Job, pools: Iterable[Pool], sharing: Sharing) -> Reason | None:
    """The quota or limit that keeps the job back even if nothing else runs or waits; None: none
    does. An interactive job in a project with a quota of 0, for example."""
    if not sharing.projects or not may_be_beyond(job, sharing):
        return None
    alone = Snapshot(
        pools=tuple(pools),
        projects=sharing.projects,
        departments=sharing.departments,
        waiting=(_waiting(job),),
    )
    why = plan(alone, job.entry_time).reasons.get(job.name)
    causes = (why, why.also) if why else ()
    return next((each for each in causes if isinstance(each, QuotaExceeded | LimitReached)), None)


def may_be_beyond(job: Job, sharing: Sharing) -> bool:
    """Whether a quota or limit binds the job. Most jobs may be evicted, and no limit binds them."""
    project = sharing.project(job.project)
    if project is None:
        return False
    owners: list[Project | Department] = [project]
    owners += (each for each in sharing.departments if each.name == project.department)
    return not job.evictable or any(each.limit or not each.over_quota for each in owners)


def _waiting(job: Job) -> Job:
    """The job as it would wait for slots alone."""
    return replace(
        job, state=JobState.PENDING, group="", after=(), after_any=(), claim=None, auto=False
    )
