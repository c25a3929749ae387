"""What a pass costs, over waiting jobs, lines, active jobs and pools.

Each world is measured four times: the first pass over a table that nothing is known of, a pass with
nothing to do in a warm container and in a new one, and a pass with one decision (another container
has ended a job).
"""

from __future__ import annotations

import app
from benchmarks.live.account import Live
from benchmarks.live.meter import Usage
from benchmarks.live.queues import Size, ends, queue
from tests.functional.account import forget

MANY_LINES = Size(waiting=4_000, lines=2_000)
URGENT = Size(waiting=20_000, lines=100, active=500, pools=1, urgent=True)
MOST_SETTLING = 30
"""The most passes between the first and the measured ones, in which the queue learns."""

BASE = Size()
STEPS: dict[str, tuple[int, ...]] = {
    "waiting": (200, 2_000, 20_000),
    "lines": (1, 10, 100, 500, 2_000),
    "active": (10, 100, 500, 2_000),
    "pools": (1, 2, 10, 20),
}
"""What is varied, one at a time, from the base."""

Figures = dict[str, float]


def sizes(*, short: bool) -> dict[str, Size]:
    """The worlds by name: the ones of promises first, then each dimension."""
    worlds = {"2,000 lines": MANY_LINES, "a job of high rank that waits": URGENT}
    if short:
        return {"2,000 lines": MANY_LINES}
    for name, steps in STEPS.items():
        for step in steps:
            worlds[f"{name} {step:,}"] = _varied(name, step)
    return worlds


def _varied(name: str, step: int) -> Size:
    """The base with another number of lines, say. Every line needs a job, and every pool a slot."""
    numbers = {**{each: getattr(BASE, each) for each in STEPS}, name: step}
    numbers["waiting"] = max(numbers["waiting"], numbers["lines"])
    return Size(**numbers)


def measure(*, short: bool = False) -> dict[str, dict[str, Figures]]:
    """What each kind of pass costs, by world."""
    return {name: world(size) for name, size in sizes(short=short).items()}


def world(size: Size) -> dict[str, Figures]:
    """What each kind of pass costs in a queue of this size."""
    return {name: usage.figures() for name, usage in kinds_of_pass(size).items()}


def kinds_of_pass(size: Size) -> dict[str, Usage]:
    """The calls of each kind of pass in a queue of this size."""
    with queue(size) as its:
        first = its.pass_()
        quiet = settled(its)
        decision = _one_decision(its, size)
        forget()
        app.manager()
        cold = its.pass_()
    return {"first": first, "quiet": quiet, "one decision": decision, "cold container": cold}


def settled(its: Live) -> Usage:
    """Run passes until one costs as much as the one before. Returns what one more costs."""
    costs = [its.pass_(), its.pass_()]
    while costs[-1].operations != costs[-2].operations and len(costs) < MOST_SETTLING:
        costs.append(its.pass_())
    return its.pass_()


def _one_decision(its: Live, size: Size) -> Usage:
    """One job ends where others wait for its slot, and one of them starts."""
    before = its.account.plane.calls["CreateTrainingJob"]
    ends(its, size.pools)  # The first of each pool stays: it may not be evicted.
    usage = its.pass_()
    assert its.account.plane.calls["CreateTrainingJob"] == before + 1, size
    return usage
