"""Spot pools on random scenarios: the queue does as the simulator, and interruptions cost nothing
but time."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from slotq.simulate import simulate
from slotq.simulate.report import unequal
from slotq.simulate.run.live import live_record
from slotq.simulate.run.simulated_spot import SpotTurn, turn_of
from slotq.simulate.scenario.scenario import Scenario
from slotq.simulate.scenario.sections import InterruptionSpec
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.plan import Plan

TERMINAL = {"completed", "failed", "cancelled", "refused"}


@st.composite
def _interruptions(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Those of the first two attempts, each after the other."""
    found = []
    for attempt in (1, 2):
        lasting = True
        for place in range(draw(st.integers(0, 3))):
            first = 0 if place == 0 else 1
            after = draw(st.integers(first, 30))
            if lasting:
                wait = draw(st.none() | st.integers(1, 120))
                found.append({"attempt": attempt, "after": after, "lasts": wait})
                lasting = wait is not None
    return found


@st.composite
def worlds(draw: st.DrawFn) -> Scenario:
    """A spot pool, and perhaps one on demand; jobs of several ranks, some of which run at the
    start, and a gang."""
    pools = [
        {
            "name": "s",
            "capacity": draw(st.integers(1, 3)),
            "capacity_kind": "spot",
            "spot_wait": draw(st.sampled_from([0, 30])),
            "stop_seconds": draw(st.sampled_from([0, 0, 4])),
            "stall_after": draw(st.sampled_from([None, None, 60])),
            "checkpoints": draw(st.sampled_from(["warn", "provide"])),
            "min_runtime": draw(st.sampled_from([0, 0, 20])),
            "time_slice": draw(st.sampled_from([None, None, 15])),
        },
        {"name": "p", "capacity": draw(st.integers(1, 2))},
    ][: draw(st.integers(1, 2))]
    names = [pool["name"] for pool in pools]
    jobs = []
    for i in range(draw(st.integers(1, 6))):
        begins: dict[str, Any] = {"submit_at": draw(st.sampled_from([0, 0, 5, 40]))}
        jobs.append(
            {
                "name": f"j{i}",
                **begins,
                "priority": draw(st.integers(0, 2)),
                "user": draw(st.sampled_from(["ann", "bob"])),
                "pools": draw(st.permutations(names)),
                "runtime": draw(st.sampled_from([10, 25, 150])),
                "silent_from": draw(st.sampled_from([None, None, 5])),
                "max_runtime": draw(st.sampled_from([60, 150, 300])),
                "checkpoint": draw(st.sampled_from([True, True, False])),
                "preemptible": draw(st.sampled_from([True, True, False])),
                "cancel_at": draw(st.sampled_from([None, None, None, 7, 50])),
                "retries": draw(st.integers(0, 1)),
                "fails": draw(st.lists(st.sampled_from([None, None, 4, "fault"]), max_size=2)),
                "interruptions": draw(_interruptions()),
                "group": "gang" if i in {1, 2} and draw(st.booleans()) else None,
            }
        )
    gang = [{"name": "gang", "min_members": 1}] if any(job["group"] for job in jobs) else []
    return Scenario.model_validate({"pools": pools, "jobs": jobs, "groups": gang})


@given(worlds())
def test_the_queue_itself_does_the_same(scenario: Scenario) -> None:
    assert unequal(simulate(scenario), live_record(scenario)) == []


@given(worlds())
def test_every_job_ends_and_no_interruption_costs_a_retry(scenario: Scenario) -> None:
    retries = {job.name: job.retries for job in scenario.jobs}
    scripts_fail = {job.name for job in scenario.jobs if any(job.fails)}

    def watch(snapshot: Snapshot, _planned: Plan, _now: int) -> None:
        for job in (*snapshot.active, *snapshot.waiting):
            assert job.retries == retries[job.name] or job.name in scripts_fail

    record = simulate(scenario, watch)
    for job in scenario.jobs:
        assert record.states[job.name][-1][1] in TERMINAL, job.name


@given(worlds())
def test_what_is_interrupted_holds_its_slots_and_only_its_work_is_running_time(
    scenario: Scenario,
) -> None:
    def watch(snapshot: Snapshot, _planned: Plan, now: int) -> None:
        for job in snapshot.active:
            attempt = job.attempt
            assert attempt is not None
            if attempt.interrupted_since is None:
                ran = now - (now if attempt.running_since is None else attempt.running_since)
            else:
                ran = attempt.ran_before
            held = attempt.used_until(now) - attempt.used_since
            assert 0 <= ran <= held <= now - attempt.admitted_at
            assert attempt.capacity_kind == "spot" or not attempt.interruptions

    simulate(scenario, watch)


def test_turns_come_in_the_order_of_the_file() -> None:
    def spec(attempt: int, after: int, lasts: int | None) -> InterruptionSpec:
        return InterruptionSpec.model_validate({"attempt": attempt, "after": after, "lasts": lasts})

    specs = [spec(1, 0, 5), spec(2, 7, 8), spec(1, 3, None)]
    turns = [[turn_of(specs, attempt, turn) for turn in range(2)] for attempt in (1, 2, 3)]
    assert turns == [
        [SpotTurn(5_000, 3_000), SpotTurn(None, None)],
        [SpotTurn(0, 7_000), SpotTurn(8_000, None)],
        [SpotTurn(0, None), SpotTurn(0, None)],
    ]
