"""Step 2, order: rank and the order of jobs within a project.

"Rank (workload class, then effective priority, high first), then entry time (old first), then
name." Between projects the most deprived comes first: turn/turn_order.py. A waiting AUTO job ranks
below every class and every number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from slotq_core.model.jobs import Job, Workload
from slotq_core.model.users import AUTO, Yielded
from slotq_core.timestamps import from_iso, iso

_TOP = 1_000_000
"""The highest priority; its digits in an order key are all zeros."""

BELOW_ALL = -_TOP - 1
"""The priority of a waiting AUTO job."""

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
    return bool(job.submitter) and job.submitter == other.submitter and rank(job) == rank(other)


def rank_of(workload: Workload, priority: int) -> Rank:
    return (_WORKLOADS[workload], priority)


def last_yields(yields: Iterable[Yielded]) -> Yields:
    return {(each.user, rank_of(each.workload, each.priority)): each.at for each in yields}


def entered(job: Job, yields: Yields) -> int:
    """When (ms) the job counts as having entered: "the user whose job yielded counts, for all that
    user's waiting jobs of that rank, as having entered just after that moment"."""
    return max(job.entry_time, yields.get((job.submitter, rank(job)), job.entry_time))


def position(job: Job, yields: Yields = NO_YIELDS) -> Position:
    """The sort key of the order within a project. It ends in the name, so there are no ties."""
    workload, priority = rank(job)
    entry = job.entry_time
    yielded = entry - 1
    if yields:
        yielded = yields.get((job.submitter, (workload, priority)), yielded)
    return (-workload, -priority, max(entry, yielded), yielded >= entry, entry, job.name)


def order_key(job: Job) -> str:
    """`position` as a string, for the store's sort key, without yields: they move a whole line."""
    return first_key(rank(job), job.entry_time) + job.name


def first_key(of: Rank, moment: int) -> str:
    """The lowest order key of any job of this rank that enters at that moment (ms) or later."""
    return f"{key_of_rank(of)}{iso(moment)}#"


def key_of_rank(of: Rank) -> str:
    """What the order keys of all jobs of this rank begin with."""
    workload, priority = of
    return f"{2 - workload}{_TOP - priority:07d}#"


def moment_in(key: str) -> int:
    """The entry time (ms) in an order key. Raises ValueError if the key has none."""
    text = key.partition("#")[2].partition("#")[0]
    moment = from_iso(text)
    if iso(moment) != text:
        raise ValueError(f"{text!r} is no moment as order keys have it")
    return moment


def place_in(key: str) -> tuple[int, str]:
    """The entry time (ms) and the name in an order key. Raises ValueError."""
    return moment_in(key), key.split("#", 2)[2]
