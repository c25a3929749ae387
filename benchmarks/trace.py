"""A trace's schedule under SlotQ's policy, beside the schedules and the bound of `schedules`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from time import process_time

from benchmarks.schedules import Outcome, TraceJob, bound, fifo, first_fit, read
from slotq.simulate import Scenario, simulate
from slotq.simulate.run.metrics import metrics

SLOTS = 256

Figures = dict[str, float | None]


def measure(path: Path) -> dict[str, Figures]:
    """What each schedule reaches on this trace."""
    jobs = read(path)
    schedules: dict[str, Callable[[], Outcome]] = {
        "first in, first out": lambda: fifo(jobs, SLOTS),
        "first fit": lambda: first_fit(jobs, SLOTS),
        "SlotQ": lambda: slotq(jobs),
        "SlotQ, equal quotas": lambda: slotq(jobs, quotas=True),
        "SlotQ, equal quotas, no checkpoints": lambda: slotq(jobs, quotas=True, checkpoint=False),
        "bound": lambda: bound(jobs, SLOTS),
    }
    return {name: _timed(schedule) for name, schedule in schedules.items()}


def _timed(schedule: Callable[[], Outcome]) -> Figures:
    began = process_time()
    outcome = schedule()
    return {**_figures(outcome), "cpu_seconds": round(process_time() - began, 1)}


def slotq(jobs: Sequence[TraceJob], *, quotas: bool = False, checkpoint: bool = True) -> Outcome:
    """SlotQ's schedule. `quotas`: each project has an equal quota, and evicts for it; else there
    are no projects. Without `checkpoint` an evicted job begins anew."""
    names = sorted({job.project for job in jobs}) if quotas else []
    scenario = Scenario.model_validate(
        {
            "pools": [{"name": "gpus", "capacity": SLOTS}],
            "projects": [{"name": name, "quota": SLOTS // len(names)} for name in names],
            "jobs": [_spec(job, with_project=quotas, checkpoint=checkpoint) for job in jobs],
        }
    )
    record = simulate(scenario)
    figures = metrics(scenario, record)
    return Outcome(
        utilisation=figures.utilisation,
        wait_mean=figures.wait_mean,
        wait_p95=figures.wait_p95,
        makespan=record.last / 1000 - jobs[0].submit,
        evictions=figures.evictions,
        lost=figures.slot_seconds_lost,
    )


def _spec(job: TraceJob, *, with_project: bool, checkpoint: bool) -> dict[str, object]:
    spec: dict[str, object] = {
        "name": job.name,
        "submit_at": job.submit,
        "runtime": job.runtime,
        "slots": job.slots,
        "checkpoint": checkpoint,
    }
    return {**spec, "project": job.project} if with_project else spec


def _figures(outcome: Outcome) -> Figures:
    hours = {
        "wait_mean_hours": outcome.wait_mean,
        "wait_p95_hours": outcome.wait_p95,
        "makespan_hours": outcome.makespan,
        "lost_slot_hours": outcome.lost,
    }
    return {
        "utilisation": round(outcome.utilisation, 4),
        **{
            name: None if value is None else round(value / 3600, 1) for name, value in hours.items()
        },
        "evictions": outcome.evictions,
    }
