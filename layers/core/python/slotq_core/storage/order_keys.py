"""Order keys: the policy's order within a line as strings, which a store sorts by."""

from __future__ import annotations

from slotq_core.model.jobs import Job
from slotq_core.policy.lines import Line
from slotq_core.policy.order import Precedence, Rank, entered, last_yield, rank, used_by
from slotq_core.timestamps import from_iso, iso

_TOP = 1_000_000
"""The highest priority; its digits in an order key are all zeros."""


def order_key(job: Job) -> str:
    """`policy.order.position` as a string, without what moves a whole line: yields to time slices,
    and past use."""
    return first_key(rank(job), job.entry_time) + job.name


def first_key(of: Rank, moment: int) -> str:
    """The lowest order key of any job of this rank that enters at that moment (ms) or later."""
    return f"{key_of_rank(of)}{iso(moment)}#"


def after_all(of: Rank) -> str:
    """An order key behind those of all jobs of this rank."""
    return f"{key_of_rank(of)}~"


def key_of_rank(of: Rank) -> str:
    """The common beginning of the order keys of all jobs of this rank."""
    workload, priority = of
    return f"{2 - workload}{_TOP - priority:07d}#"


def key_after(job: Job, line: Line, by: Precedence) -> str:
    """The order key before which jobs of another line are ahead of the job; empty: none of them.

    A job is behind all jobs of users who have used less, and ahead of those who have used more. A
    yield sets a user's entry time to the time of the yield. So the job is behind jobs
    that had entered when its user yielded, and ahead of users who have yielded since."""
    yields, used = by
    if used and line.rank == rank(job):
        mine, other = used_by(job.project, job.person, used), used_by(line.project, line.user, used)
        if mine != other:
            return after_all(line.rank) if other < mine else ""
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
