"""Step 2, the order in which waiting jobs are looked at, and what "lower rank" means.

"Within one project: rank (effective priority, high first), then entry time (old first), then name."
"""

from __future__ import annotations

from slotq_core.model import Job
from slotq_core.moments import iso

_TOP = 1_000_000
"""The highest priority there is: its jobs' keys begin with zeros."""


def rank(job: Job) -> int:
    """What decides who may evict whom: strictly higher evicts strictly lower."""
    return job.priority


def position(job: Job) -> tuple[int, int, str]:
    """The order as a list of keys, the first the strongest; ends in the name, so never a tie."""
    return (-rank(job), job.entry_time, job.name)


def order_key(job: Job) -> str:
    """`position` as a string: sorts alike, so that the store's sort key is the policy's order."""
    return f"{_TOP - job.priority:07d}#{iso(job.entry_time)}#{job.name}"
