"""What a submission costs, whatever waits: its calls until it is answered, after passes have looked
at the queue. Then the first look at the job."""

from __future__ import annotations

from benchmarks.live.account import Live
from benchmarks.live.meter import Usage
from benchmarks.live.passes import settled
from benchmarks.live.queues import Size, queue

QUEUES = {
    "empty queue": Size(waiting=0, lines=1, active=2, pools=1),
    "behind 1,000 of its line": Size(waiting=1_000, lines=1, active=2, pools=1),
    "behind 50,000 of its line": Size(waiting=50_000, lines=1, active=2, pools=1),
    "beside 500 lines": Size(waiting=500, lines=500, active=2, pools=1),
    "beside 2,000 lines": Size(waiting=2_000, lines=2_000, active=2, pools=1),
}
SHORT = ("empty queue", "beside 500 lines")

Figures = dict[str, float]


def measure(*, short: bool = False) -> dict[str, dict[str, Figures]]:
    wanted = SHORT if short else tuple(QUEUES)
    return {name: in_queue(QUEUES[name]) for name in wanted}


def in_queue(size: Size) -> dict[str, Figures]:
    """The first submission, another in the same container, and a look at the first job."""
    with queue(size) as its:
        settled(its)
        first = _submission(its, "job-1")
        again = _submission(its, "job-2")
        with its.engine.meter.counting() as look:
            its.look("job-1")
    every = {"first": first, "another": again, "look": look}
    return {name: usage.figures() for name, usage in every.items()}


def _submission(its: Live, name: str) -> Usage:
    with its.engine.meter.counting() as usage:
        its.submit(name)
    return usage
