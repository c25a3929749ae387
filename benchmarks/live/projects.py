"""What passes and submissions cost in a queue that many projects share."""

from __future__ import annotations

from benchmarks.live import passes, submissions
from benchmarks.live.queues import Size
from benchmarks.live.sharing import Shared

FEW = Shared(projects=50, departments=10)
MANY = Shared(projects=1_000, departments=50)

QUEUES = {
    "300 lines of 50 projects": Size(waiting=600, lines=300, shared=FEW),
    "2,000 lines of 50 projects": Size(waiting=4_000, lines=2_000, shared=FEW),
    "2,000 lines of 1,000 projects": Size(waiting=4_000, lines=2_000, shared=MANY),
}
SHORT = ("300 lines of 50 projects",)

Figures = dict[str, float]


def measure(*, short: bool = False) -> dict[str, dict[str, dict[str, Figures]]]:
    """The cost of each kind of pass and submission, by queue."""
    wanted = SHORT if short else tuple(QUEUES)
    return {
        "passes": {name: passes.world(QUEUES[name]) for name in wanted},
        "submissions": {name: submissions.in_queue(QUEUES[name]) for name in wanted},
    }
