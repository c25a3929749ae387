"""Order keys: the policy's order within a line as strings, which a store sorts by."""

from __future__ import annotations

from slotq_core.model.jobs import Job
from slotq_core.policy.lines import Line
from slotq_core.policy.order import Rank, Yields, entered, last_yield, rank
from slotq_core.timestamps import from_iso, iso

_TOP = 1_000_000
"""The highest priority; its digits in an order key are all zeros."""


def order_key(job: Job) -> str:
    """`policy.order.position` as a string, without yields to time slices: they move a whole
    line."""
    return first_key(rank(job), job.entry_time) + job.name


def first_key(of: Rank, moment: int) -> str:
    """The lowest order key of any job of this rank that enters at that moment (ms) or later."""
    return f"{key_of_rank(of)}{iso(moment)}#"


def key_of_rank(of: Rank) -> str:
    """The common beginning of the order keys of all jobs of this rank."""
    workload, priority = of
    return f"{2 - workload}{_TOP - priority:07d}#"


def key_after(job: Job, line: Line, yields: Yields) -> str:
    """The order key before which jobs of another line are ahead of the job; empty: none of them.

    A yield sets a user's entry time to the time of the yield. So the job is behind jobs that had
    entered when its user yielded, and ahead of users who have yielded since."""
    since = entered(job, yields)
    if line.rank == rank(job) and yields:
        theirs = last_yield(line.project, line.user, line.rank, yields)
        if theirs is not None and theirs > since:
            return ""
    return order_key(job) if since == job.entry_time else first_key(rank(job), since + 1)


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
