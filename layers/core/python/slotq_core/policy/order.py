"""Step 2, order: rank and the order of jobs within a project.

"Rank (workload class, then effective priority, high first), then entry time (old first), then
name." Where the past use of users counts, the user who has used a smaller part of the project's use
goes first, before entry time. Between projects the most deprived comes first: turn/turn_order.py. A
waiting AUTO job ranks below every class and every number.

The user whose job yielded counts, for all that user's waiting jobs of that rank, as having entered
just after that moment (`order.entered`). The stores keep it beside the jobs.

See docs/policy-decisions.md#time-slices.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from slotq_core.model.attempts import StopCause
from slotq_core.model.jobs import Job, Workload
from slotq_core.model.snapshot import Snapshot
from slotq_core.model.users import AUTO, Yielded

BELOW_ALL = -1_000_001
"""The priority of a waiting AUTO job: below the lowest priority."""

_WORKLOADS = {Workload.INFERENCE: 2, Workload.INTERACTIVE: 1, Workload.TRAINING: 0}
"""Interactive and inference jobs come before training."""

Rank = tuple[int, int]
Position = tuple[int, int, int, int, bool, int, str]

Yields = Mapping[tuple[str | None, str, Rank], int]
"""The time (ms) of the last yield to a time slice, by project, user and rank. A yield without a
project (`Yielded.project`) counts in every project."""

NO_YIELDS: Yields = {}

Used = Mapping[str, Mapping[str, int]]
"""What each user has used of a project's past use, in 64ths, by project and user."""

NOTHING_USED: Used = {}


class Precedence(NamedTuple):
    """What moves a user's waiting jobs among those of equal rank."""

    yields: Yields = NO_YIELDS
    used: Used = NOTHING_USED


BY_ENTRY = Precedence()


def precedence(snapshot: Snapshot) -> Precedence:
    """What moves users' jobs in this queue now."""
    settings = snapshot.fair_share
    counts = settings is not None and settings.of_users
    used = snapshot.past_use.users if counts else NOTHING_USED
    return Precedence(last_yields(snapshot.yields), used)


def used_by(project: str, user: str, used: Used) -> int:
    """The user's part of the project's past use, in 64ths."""
    return used.get(project, {}).get(user, 0)


def rank(job: Job) -> Rank:
    """The rank of a job. Within a project only a strictly higher rank preempts a lower one."""
    priority = BELOW_ALL if job.priority_class == AUTO else job.priority
    return (_WORKLOADS[job.workload], priority)


def same_user_and_rank(job: Job, other: Job) -> bool:
    """Whether the jobs have the same project, user and rank; false for a job that names no user.
    "Never interrupt a user's running job for another job of the same user and rank. Within one
    project: between projects only quotas and shares speak (many people often share one role)."
    """
    if not job.person or job.person != other.person or job.project != other.project:
        return False
    return rank(job) == rank(other)


def outranks(job: Job, holder: Job) -> bool:
    """ "Strictly lower rank in its own project"; equal ranks never evict each other."""
    return holder.project == job.project and rank(holder) < rank(job)


def rank_of(workload: Workload, priority: int) -> Rank:
    return (_WORKLOADS[workload], priority)


def last_yields(yields: Iterable[Yielded]) -> Yields:
    return {
        (yielded.project, yielded.user, rank_of(yielded.workload, yielded.priority)): yielded.at
        for yielded in yields
    }


def last_yield(project: str, user: str, of: Rank, yields: Yields) -> int | None:
    """When (ms) a job of that user and rank last yielded in the project; None: not lately."""
    here, anywhere = yields.get((project, user, of)), yields.get((None, user, of))
    return anywhere if here is None else max(here, anywhere or here)


def entered(job: Job, yields: Yields) -> int:
    """When (ms) the job counts as having entered: "the user whose job yielded counts, for all that
    user's waiting jobs of that rank, as having entered just after that moment"."""
    yielded = last_yield(job.project, job.person, rank(job), yields) if yields else None
    return job.entry_time if yielded is None else max(job.entry_time, yielded)


def position(job: Job, by: Precedence = BY_ENTRY) -> Position:
    """The sort key of the order within a project. It ends in the name, so there are no ties."""
    workload, priority = rank(job)
    entry, (yields, used) = job.entry_time, by
    part = used_by(job.project, job.person, used) if used else 0
    if not yields:
        return (-workload, -priority, part, entry, False, entry, job.name)
    last = last_yield(job.project, job.person, (workload, priority), yields)
    yielded = entry - 1 if last is None else last
    return (-workload, -priority, part, max(entry, yielded), yielded >= entry, entry, job.name)


def yield_of(job: Job) -> Yielded | None:
    """The yield of the job's user, while the job stops at the end of its time slice."""
    stop = job.attempt.stop if job.attempt else None
    if stop is None or stop.cause is not StopCause.YIELDED:
        return None
    return Yielded(
        user=job.person,
        workload=job.workload,
        priority=job.priority,
        at=stop.at,
        project=job.project,
    )


def yield_in(before: Job | None, after: Job) -> Yielded | None:
    """The yield that one change of a job brings."""
    return None if before is None or yield_of(before) else yield_of(after)


def after_yield(yields: Iterable[Yielded], before: Job | None, after: Job) -> tuple[Yielded, ...]:
    """The last yield of each project, user and rank, after one change of a job."""
    latest = yield_in(before, after)
    if latest is None:
        return tuple(yields)
    return (*(yielded for yielded in yields if yielded.of != latest.of), latest)
