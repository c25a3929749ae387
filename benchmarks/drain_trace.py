"""What stands idle while a pool drains, on the first jobs of a trace, by the maximum runtime that
they state.

The pool drains for a job that has waited for an hour. `idle` is the part of the slot-hours in which
it drains that no job holds. A job never states less than it runs, so one that runs for longer than
a day states its runtime where the others state 24 h.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import process_time

from benchmarks.schedules import TraceJob, read
from benchmarks.trace import SLOTS
from slotq.simulate import Scenario, simulate
from slotq.simulate.run.metrics import metrics
from slotq_core.model.reasons import Reserved
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.order import position
from slotq_core.policy.plan import Plan, Start

JOBS = 3_000
"""How many jobs are submitted: more take more CPU each, because more wait."""
RESERVE_AFTER = 3_600
DAY = 86_400

Bound = Callable[[TraceJob], float | None]

BOUNDS: dict[str, Bound] = {
    "none stated": lambda _: None,
    "1 × the runtime": lambda job: job.runtime,
    "2 × the runtime": lambda job: 2 * job.runtime,
    "24 h": lambda job: max(DAY, job.runtime),
}


@dataclass
class Watched:
    """How long the pool drains, and what is idle meanwhile."""

    drained: float = 0.0
    """Slot-seconds."""
    idle: float = 0.0
    at: int = 0
    free: int | None = None
    """The free slots since the last plan; None: the pool does not drain."""

    def __call__(self, snapshot: Snapshot, planned: Plan, now: int) -> None:
        if self.free is not None:
            self.drained += SLOTS * (now - self.at) / 1000
            self.idle += self.free * (now - self.at) / 1000
        starts = [d.job for d in planned.decisions if isinstance(d, Start)]
        gone = {job.name for job in starts}
        left = [job for job in snapshot.waiting if job.name not in gone]
        first = min(left, key=position, default=None)
        drains = first is not None and isinstance(planned.reasons.get(first.name), Reserved)
        held = sum(job.demand.slots for job in (*snapshot.active, *starts))
        self.at, self.free = now, SLOTS - held if drains else None


def measure(path: Path) -> dict[str, dict[str, float]]:
    """What stands idle, and how long jobs wait, by what they state."""
    jobs = read(path)[:JOBS]
    return {name: _measured(jobs, bound) for name, bound in BOUNDS.items()}


def _measured(jobs: Sequence[TraceJob], bound: Bound) -> dict[str, float]:
    began, watched = process_time(), Watched()
    scenario = Scenario.model_validate(
        {
            "pools": [{"name": "gpus", "capacity": SLOTS, "reserve_after": RESERVE_AFTER}],
            "jobs": [
                {
                    "name": job.name,
                    "submit_at": job.submit,
                    "runtime": job.runtime,
                    "max_runtime": bound(job),
                    "slots": job.slots,
                }
                for job in jobs
            ],
        }
    )
    record = simulate(scenario, watched)
    figures = metrics(scenario, record)
    waits = {"wait_mean_hours": figures.wait_mean, "wait_p95_hours": figures.wait_p95}
    return {
        "idle": round(watched.idle / watched.drained, 4),
        "drained_slot_hours": round(watched.drained / 3600),
        "utilisation": round(figures.utilisation, 4),
        **{name: round((value or 0) / 3600, 1) for name, value in waits.items()},
        "cpu_seconds": round(process_time() - began, 1),
    }
