"""What the user of a job should know before it is too late, as sentences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from slotq_core.admission.checkpoints import loses_its_work, warning
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.pools import Pool
from slotq_core.model.projects import Department, Project
from slotq_core.model.reasons import LimitReached, QuotaExceeded, Reason
from slotq_core.model.sharing import Sharing
from slotq_core.model.snapshot import Snapshot
from slotq_core.operations.status import Status
from slotq_core.policy.cycle import plan
from slotq_core.policy.lifecycle.stall import warned_of
from slotq_core.ports.stored import Configuration


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
