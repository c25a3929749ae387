"""The peak of what Python allocates, in MB: a pass with 2,000 lines, and a plan of a large queue.

The table's own items are not counted, nor is what was there before. Lambda has 512 MB by default.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from dataclasses import replace

from benchmarks.live.passes import MANY_LINES
from benchmarks.live.queues import queue
from benchmarks.worlds import NOW, Size, world
from slotq.simulate.run.simulated_jobs import SimulatedJobs
from slotq_core.policy.cycle import plan


def measure(*, short: bool = False) -> dict[str, float]:
    waiting = 10_000 if short else 100_000
    return {"pass, 2,000 lines": _pass(), f"plan {waiting}": _plan(waiting)}


def _pass() -> float:
    with queue(MANY_LINES) as its:
        return _peak(its.pass_)


def _plan(waiting: int) -> float:
    snapshot = world(Size(waiting=waiting))
    standing = SimulatedJobs(replace(snapshot, active=(), waiting=()))
    for job in (*snapshot.active, *snapshot.waiting):
        standing.put(job)
    heads = standing.heads(snapshot)
    return _peak(lambda: plan(heads, NOW, more=standing.more))


def _peak(run: Callable[[], object]) -> float:
    tracemalloc.start()
    try:
        run()
        return round(tracemalloc.get_traced_memory()[1] / 1e6, 1)
    finally:
        tracemalloc.stop()
