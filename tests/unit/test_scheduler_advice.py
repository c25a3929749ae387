"""The warning where the scheduler settings give jobs up too soon."""

from __future__ import annotations

from typing import Any

import pytest

from slotq_core.operations.configuring.advice import scheduler_warnings
from slotq_core.wire.document.contents import read

POOLS = [
    {"name": name, "capacity": 1, "instance_type": "ml.p5.48xlarge"} for name in ("p5", "p4", "g5")
]
DAY = 86_400


def warned(scheduler: dict[str, Any], *projects: dict[str, Any]) -> list[str]:
    document = {"pools": POOLS, "scheduler": scheduler, "projects": [*projects]}
    return list(scheduler_warnings(read(document)))


def project(name: str, *, pools: tuple[str, ...] = (), **runtimes: int) -> dict[str, Any]:
    """A project that may use these pools (none: all), with a `fixed` or `defaults` runtime (s)."""
    rules: dict[str, Any] = {
        kind: {"StoppingCondition": {"MaxRuntimeInSeconds": seconds}}
        for kind, seconds in runtimes.items()
    }
    return {"name": name, "requests": {**rules, "pools": [*pools]}}


def counted(attempts: int, **more: Any) -> dict[str, Any]:
    return {"max_schedule_count": attempts, **more}


@pytest.mark.parametrize(
    ("scheduler", "projects", "pools"),
    [
        ({}, (), ""),
        ({"max_jobs": 1}, (), ""),
        (counted(8640), (), ""),
        (counted(8639), (), "p5, p4, g5"),
        (counted(DAY, min_schedule_interval=0.01), (), ""),
        (counted(DAY - 1, min_schedule_interval=0.01), (), "p5, p4, g5"),
        (counted(360), (project("a", fixed=3600),), ""),
        (counted(359), (project("a", fixed=3600),), "p5, p4, g5"),
        (counted(360), (project("a", defaults=3600),), ""),
        (counted(360), (project("a", fixed=3600), project("b", pools=("p4",))), "p4"),
        (counted(360), (project("a", fixed=3600, pools=("p5",)),), ""),
    ],
)
def test_pools_whose_longest_job_outlasts_all_attempts(
    scheduler: dict[str, Any], projects: tuple[dict[str, Any], ...], pools: str
) -> None:
    told = warned(scheduler, *projects)
    assert bool(told) is bool(pools)
    assert not told or f"(pools: {pools})" in told[0]


def test_the_warning_says_when_jobs_are_given_up_and_what_would_do() -> None:
    (told,) = warned(counted(10))
    assert "min_schedule_interval x max_schedule_count is 100 s" in told
    assert "a job may run for 24 h" in told
    assert "given up 40 min after its first attempt" in told, "10 + 20 + … + 320 + 3 x 600 s"
    assert told.endswith("max_schedule_count: 8,640 would outlast it")
