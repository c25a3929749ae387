"""Starts that take minutes, in worlds in which more arrives than ends."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from slotq.simulate import simulate
from slotq.simulate.report import unequal
from slotq.simulate.run.live import live_record
from slotq.simulate.scenario.scenario import Scenario

HOUR = 3_600_000


@st.composite
def crowded(draw: st.DrawFn) -> Scenario:
    """Two projects, three ranks, jobs of several sizes that arrive within two hours."""
    capacity = draw(st.integers(2, 4))
    pool: dict[str, Any] = {
        "name": "p",
        "capacity": capacity,
        "start_seconds": draw(st.sampled_from([240, 300, 900])),
        "stop_seconds": draw(st.sampled_from([0, 30])),
        "reserve_after": draw(st.sampled_from([None, 600])),
        "min_runtime": "auto",
    }
    jobs = [
        {
            "name": f"j{number}",
            "project": draw(st.sampled_from("ab")),
            "user": draw(st.sampled_from(["ann", "bob"])),
            "priority": draw(st.integers(0, 2)),
            "slots": draw(st.sampled_from([1, 1, 2])),
            "runtime": draw(st.sampled_from([60, 600, 2400])),
            "submit_at": draw(st.integers(0, 7200)),
        }
        for number in range(draw(st.integers(10, 30)))
    ]
    quotas = draw(st.sampled_from([(0, capacity), (1, 1), (capacity, 0)]))
    projects = [{"name": name, "quota": quota} for name, quota in zip("ab", quotas, strict=True)]
    return Scenario.model_validate({"pools": [pool], "projects": projects, "jobs": jobs})


@given(crowded())
def test_no_job_is_evicted_ten_times_in_an_hour(scenario: Scenario) -> None:
    record = simulate(scenario)
    for job in scenario.jobs:
        evicted = record.evicted(job.name)
        assert all(
            later - first >= HOUR for first, later in zip(evicted, evicted[9:], strict=False)
        )
        assert record.states[job.name][-1][1] == "completed"


@given(crowded())
def test_the_queue_itself_does_the_same(scenario: Scenario) -> None:
    assert unequal(simulate(scenario), live_record(scenario)) == []
