"""Step 2, order: rank and the order of jobs within a project.

"Rank (workload class, then effective priority, high first), then entry time (old first), then
name." Between projects the most deprived comes first: turn/turn_order.py. A waiting AUTO job ranks
below every class and every number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from slotq_core.model.jobs import Job, Workload
from slotq_core.model.users import AUTO, Yielded

BELOW_ALL = -1_000_001
"""The priority of a waiting AUTO job: below the lowest priority."""

_WORKLOADS = {Workload.INFERENCE: 2, Workload.INTERACTIVE: 1, Workload.TRAINING: 0}
"""Interactive and inference jobs come before training."""

Rank = tuple[int, int]
Position = tuple[int, int, int, bool, int, str]

Yields = Mapping[tuple[str, Rank], int]
"""The time (ms) of the last yield to a time slice, by user and rank."""

NO_YIELDS: Yields = {}


def rank(job: Job) -> Rank:
    """The rank of a job. Within a project only a strictly higher rank preempts a lower one."""
    priority = BELOW_ALL if job.priority_class == AUTO else job.priority
    return (_WORKLOADS[job.workload], priority)


def same_user_and_rank(job: Job, other: Job) -> bool:
    """Whether the jobs have the same user and rank; false for a job that names no user. "Never
    interrupt a user's running job for another job of the same user and rank."""
    return bool(job.person) and job.person == other.person and rank(job) == rank(other)


def outranks(job: Job, holder: Job) -> bool:
    """ "Strictly lower rank in its own project"; equal ranks never evict each other."""
    return holder.project == job.project and rank(holder) < rank(job)


def rank_of(workload: Workload, priority: int) -> Rank:
    return (_WORKLOADS[workload], priority)


def last_yields(yields: Iterable[Yielded]) -> Yields:
    return {(each.user, rank_of(each.workload, each.priority)): each.at for each in yields}


def entered(job: Job, yields: Yields) -> int:
    """When (ms) the job counts as having entered: "the user whose job yielded counts, for all that
    user's waiting jobs of that rank, as having entered just after that moment"."""
    return max(job.entry_time, yields.get((job.person, rank(job)), job.entry_time))


def position(job: Job, yields: Yields = NO_YIELDS) -> Position:
    """The sort key of the order within a project. It ends in the name, so there are no ties."""
    workload, priority = rank(job)
    entry = job.entry_time
    yielded = entry - 1
    if yields:
        yielded = yields.get((job.person, (workload, priority)), yielded)
    return (-workload, -priority, max(entry, yielded), yielded >= entry, entry, job.name)
