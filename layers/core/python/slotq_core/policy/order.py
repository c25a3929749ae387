"""Step 2, the order within a project, and what "lower rank" means.

"Rank (workload class, then effective priority, high first), then entry time (old first), then
name." Between projects the most deprived comes first: turns.py.
"""

from __future__ import annotations

from slotq_core.model import Job, Workload
from slotq_core.moments import iso

_TOP = 1_000_000
"""The highest priority there is: its jobs' keys begin with zeros."""

_WORKLOADS = {Workload.INFERENCE: 2, Workload.INTERACTIVE: 1, Workload.TRAINING: 0}
"""Interactive and inference jobs come before training."""

Rank = tuple[int, int]
Position = tuple[int, int, int, str]


def rank(job: Job) -> Rank:
    """What decides who may evict whom in a project: strictly higher evicts strictly lower."""
    return rank_of(job.workload, job.priority)


def is_fellow(job: Job, other: Job) -> bool:
    """ "Never interrupt a user's running job for another job of the same user and rank." Jobs that
    name no user are nobody's fellow."""
    return bool(job.submitter) and job.submitter == other.submitter and rank(job) == rank(other)


def rank_of(workload: Workload, priority: int) -> Rank:
    return (_WORKLOADS[workload], priority)


def position(job: Job) -> Position:
    """The order within a project as a list of keys, the first the strongest; ends in the name, so
    never a tie."""
    workload, priority = rank(job)
    return (-workload, -priority, job.entry_time, job.name)


def order_key(job: Job) -> str:
    """`position` as a string: sorts alike, so that the store's sort key is the policy's order."""
    return (
        f"{2 - _WORKLOADS[job.workload]}{_TOP - job.priority:07d}#{iso(job.entry_time)}#{job.name}"
    )
