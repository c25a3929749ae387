"""The figures of small runs, worked out by hand."""

from __future__ import annotations

import pytest

from slotq.simulate import simulate
from slotq.simulate.run.metrics import Metrics, metrics
from slotq.simulate.scenario.scenario import Scenario


def figures(**world) -> Metrics:
    scenario = Scenario.model_validate(world)
    return metrics(scenario, simulate(scenario))


def pool(capacity: object = 2, **fields) -> dict:
    return {"name": "p", "capacity": capacity, **fields}


def job(name: str, at: float = 0, **fields) -> dict:
    return {"name": name, "submit_at": at, **fields}


def runs(name: str, since: float = 0, **fields) -> dict:
    return {"name": name, "running_since": since, "pool": "p", **fields}


def test_a_run_without_jobs_has_empty_figures():
    empty = figures(pools=[pool()])
    assert (empty.utilisation, empty.wait_mean, empty.wait_p95) == (0.0, 0.0, 0.0)
    assert (empty.evictions, empty.slot_seconds_lost) == (0, 0.0)
    assert (empty.by_project, empty.by_priority) == ({}, {})


def test_utilisation_is_held_slots_relative_to_capacity():
    """Job a holds 1 slot for 30 s, job b 2 slots for 10 s: 50 of 2 x 40."""
    found = figures(pools=[pool()], jobs=[job("a", runtime=30), job("b", slots=2, runtime=10)])
    assert found.utilisation == 0.625


def test_utilisation_counts_every_pool():
    """10 slot-seconds of (2 + 3) x 10."""
    pools = [pool(), {"name": "q", "capacity": 3}]
    assert figures(pools=pools, jobs=[job("a", runtime=10)]).utilisation == 0.2


def test_utilisation_of_a_shrinking_pool_uses_each_capacity():
    """1 slot held for 40 s; capacity 4 for 10 s and 2 for 30 s: 40 of 100."""
    pools = [pool(4, changes=[{"at": 10, "capacity": 2}])]
    assert figures(pools=pools, jobs=[job("a", runtime=40)]).utilisation == 0.4


def test_utilisation_of_a_pool_below_its_use_is_at_most_full():
    """3 slots held for 40 s; capacity 4 for 10 s, then 1 with 3 still in use: 120 of 40 + 90."""
    pools = [pool(4, changes=[{"at": 10, "capacity": 1}])]
    found = figures(pools=pools, jobs=[job("a", slots=3, runtime=40)])
    assert found.utilisation == round(120 / 130, 4)


def test_utilisation_excludes_foreign_slots():
    """1 slot held for 40 s; 1 of 2 available for 20 s, then both: 40 of 20 + 40."""
    pools = [pool(2, foreign=1, changes=[{"at": 20, "foreign": 0}])]
    assert figures(pools=pools, jobs=[job("a", runtime=40)]).utilisation == round(40 / 60, 4)


def test_a_drained_pool_offers_only_the_slots_in_use_and_a_paused_one_all():
    """1 slot held for 40 s. Drained from 10 s on: 40 of 2 x 10 + 1 x 30. Paused: 40 of 80."""
    jobs = [job("a", runtime=40)]
    drained = [pool(2, changes=[{"at": 10, "state": "drained"}])]
    paused = [pool(2, changes=[{"at": 10, "state": "paused"}])]
    assert figures(pools=drained, jobs=jobs).utilisation == 0.8
    assert figures(pools=paused, jobs=jobs).utilisation == 0.5


THU = "thu 00:00-00:10 UTC"
"""Runs begin on a Thursday at midnight."""


def test_closed_hours_offer_no_slots():
    """1 slot held for 300 s of the first ten minutes, and for 300 s a week later; 2 offered."""
    jobs = [job("a", runtime=300), job("b", 604_800, runtime=300)]
    found = figures(pools=[pool(windows=[THU])], jobs=jobs)
    assert found.utilisation == round(600 / (2 * 600 + 2 * 300), 4)


def test_what_is_held_beyond_the_hours_counts_as_offered():
    """Asked at 500 s and stopped at 600 s: 2 slots of 2 until then, nothing after."""
    pools = [pool(windows=[THU], suspend_grace=100)]
    jobs = [job("a", slots=2, runtime=5_000, release_seconds=100, max_runtime=6_000)]
    assert figures(pools=pools, jobs=jobs, until=5_000).utilisation == 1.0


def test_a_change_while_a_pool_is_closed_counts_from_its_opening():
    """2 slots for 600 s, then 4 a week later; 1 held for 600 s each time."""
    pools = [pool(2, windows=[THU], changes=[{"at": 1_000, "capacity": 4}])]
    jobs = [job("a", runtime=600), job("b", 604_800, runtime=600)]
    assert figures(pools=pools, jobs=jobs).utilisation == round(2 / 6, 4)


def test_until_ends_a_run_with_live_jobs():
    """Job a runs and job b waits for ever: 1 of 2 slots for 100 s, without events after 0."""
    found = figures(pools=[pool()], jobs=[job("a"), job("b", slots=2)], until=100)
    assert found.utilisation == 0.5
    assert (found.wait_mean, found.wait_p95) == (50.0, 100.0)


def test_until_after_the_last_end_changes_nothing():
    found = figures(pools=[pool()], jobs=[job("a", runtime=10)], until=1000)
    assert found.utilisation == 0.5


def test_until_cuts_running_jobs():
    """Job a counts for 20 of its 100 s. Job b comes later and does not count."""
    found = figures(pools=[pool(1)], jobs=[job("a", runtime=100), job("b", 50)], until=20)
    assert found.utilisation == 1.0
    assert found.by_priority["0"].jobs == 1


def test_a_job_running_at_the_start_counts_from_the_start():
    """Job a has run for 60 s before. It holds 1 of 2 slots for the remaining 40 s."""
    assert figures(pools=[pool()], jobs=[runs("a", -60, runtime=100)]).utilisation == 0.5


def test_waiting_time_is_before_the_start_and_after_evictions():
    """Job low waits 0 + 20 s while high runs; high waits 0 s."""
    jobs = [job("low", runtime=50), job("high", 10, priority=1, runtime=20)]
    found = figures(pools=[pool(1)], jobs=jobs)
    assert (found.wait_mean, found.wait_p95) == (10.0, 20.0)
    assert found.by_priority["0"].wait_mean == 20.0
    assert found.by_priority["1"].wait_mean == 0.0


def test_stopping_time_is_not_waiting_time():
    """Job low stops from 10 to 15 s and waits until high, which waits 5 s, has run: 35 - 15."""
    jobs = [job("low", runtime=50), job("high", 10, priority=1, runtime=20)]
    found = figures(pools=[pool(1, stop_seconds=5)], jobs=jobs)
    assert found.by_priority["0"].wait_mean == 20.0
    assert found.by_priority["1"].wait_mean == 5.0


def test_a_job_that_never_started_waits_to_the_end():
    """Until 40 s: job b has waited since 10 s. A job cancelled while waiting counts until then."""
    jobs = [job("a"), job("b", 10), job("c", 10, cancel_at=25)]
    found = figures(pools=[pool(1)], jobs=jobs, until=40)
    assert found.wait_mean == 15.0  # (0 + 30 + 15) / 3


def test_a_refused_job_is_not_counted():
    found = figures(pools=[pool(1)], jobs=[job("a", runtime=10), job("b", slots=9)])
    assert found.by_priority["0"].jobs == 1


@pytest.mark.parametrize(("jobs", "p95"), [(1, 0), (19, 18), (20, 18), (21, 19), (100, 94)])
def test_the_95th_percentile_is_not_exceeded_by_95_of_100(jobs, p95):
    """Jobs of 1 s, one after another, wait 0, 1, 2 … s."""
    found = figures(pools=[pool(1)], jobs=[job(f"j{n:03d}", runtime=1) for n in range(jobs)])
    assert found.wait_p95 == p95


def test_a_checkpoint_loses_nothing():
    jobs = [job("low", runtime=50), job("high", 10, priority=1, runtime=20)]
    found = figures(pools=[pool(1)], jobs=jobs)
    assert (found.evictions, found.slot_seconds_lost) == (1, 0.0)


def test_without_a_checkpoint_the_whole_attempt_is_lost():
    """2 slots: evicted at 10 s, stopped at 15 s; again evicted at 100 s, running since 35 s,
    stopped at 105 s."""
    jobs = [
        job("low", slots=2, runtime=200, checkpoint=False),
        job("high", 10, priority=1, runtime=20),
        job("again", 100, priority=1, runtime=20),
    ]
    found = figures(pools=[pool(2, stop_seconds=5)], jobs=jobs)
    assert found.evictions == 2
    assert found.slot_seconds_lost == 2 * 15 + 2 * (105 - 35)
    assert found.by_priority["0"].slot_seconds_lost == found.slot_seconds_lost
    assert found.by_priority["1"].slot_seconds_lost == 0


def test_jobs_on_a_node_count_their_parts_of_a_slot():
    """six and two fill the node from 10 to 30, six is stopped at 30: lost. all: 30 to 50."""
    jobs = [
        job("six", gpus=6, runtime=90, checkpoint=False),
        job("two", gpus=2, runtime=20),
        job("all", 30, gpus=8, runtime=20, priority=1),
    ]
    kept = {"gpus": 8, "keep": 10, "start_seconds": 10}
    found = figures(pools=[pool(1, nodes=kept)], jobs=jobs, until=50)
    assert found.by_priority["0"].slot_seconds == 0.75 * 20 + 0.25 * 20
    assert found.slot_seconds_lost == 0.75 * 20
    assert found.utilisation == round((0.25 * 20 + 20) / 50, 4)


def test_what_an_eviction_loses_is_no_use():
    """low runs from 0 to 10 and is stopped at 15: lost. high: 15 to 35. low anew: 35 to 85."""
    jobs = [
        job("low", runtime=50, checkpoint=False),
        job("high", 10, priority=1, runtime=20),
    ]
    found = figures(pools=[pool(1, stop_seconds=5)], jobs=jobs)
    assert found.utilisation == round((20 + 50) / 85, 4)
    assert found.by_priority["0"].slot_seconds == 15 + 50


def test_what_was_lost_before_the_start_is_no_part_of_the_figures_time():
    """low has run for 60 s at 0 and is evicted at 10: 10 of 30 s are lost, high uses 20."""
    jobs = [
        runs("low", -60, runtime=200, checkpoint=False),
        job("high", 10, priority=1, runtime=20),
    ]
    found = figures(pools=[pool(1)], jobs=jobs, until=30)
    assert found.utilisation == round(20 / 30, 4)


def test_time_before_the_start_of_the_run_is_lost_too():
    jobs = [
        runs("low", -60, runtime=200, checkpoint=False),
        job("high", 10, priority=1, runtime=20),
    ]
    assert figures(pools=[pool(1)], jobs=jobs).slot_seconds_lost == 70


def test_work_completed_while_stopping_is_not_lost():
    jobs = [job("low", runtime=12, checkpoint=False), job("high", 10, priority=1, runtime=20)]
    found = figures(pools=[pool(1, stop_seconds=5)], jobs=jobs)
    assert (found.evictions, found.slot_seconds_lost) == (1, 0.0)


def test_work_lost_by_a_cancel_does_not_count():
    jobs = [
        job("alone", runtime=100, checkpoint=False, cancel_at=30),
        job("low", 30, runtime=100, checkpoint=False, cancel_at=42),
        job("high", 40, priority=1, runtime=20),
    ]
    found = figures(pools=[pool(1, stop_seconds=5)], jobs=jobs)
    assert (found.evictions, found.slot_seconds_lost) == (1, 0.0)


def test_slot_seconds_ignore_other_resources():
    jobs = [job("a", demand={"slots": 2, "gpus": 16}, runtime=10)]
    found = figures(pools=[pool({"slots": 4, "gpus": 16})], jobs=jobs)
    assert found.utilisation == 0.5
    assert found.by_priority["0"].slot_seconds == 20


def test_a_job_in_parts_holds_slots_in_each_of_its_pools():
    """1 of 2 slots of pool p and 3 of 4 of pool q for 10 s."""
    pools = [pool(2), {"name": "q", "capacity": 4}]
    found = figures(pools=pools, jobs=[job("a", parts={"p": 1, "q": 3}, runtime=10)])
    assert found.utilisation == round(4 / 6, 4)
    assert found.by_priority["0"].slot_seconds == 40


def test_figures_are_split_by_project_and_priority():
    found = figures(
        pools=[pool(1)],
        projects=[{"name": "idle"}, {"name": "b"}, {"name": "a"}],
        classes=[{"name": "HIGH", "value": 30}],
        jobs=[
            job("a1", project="a", runtime=10, priority=0),
            job("b1", 1, project="b", runtime=10, priority="HIGH"),
            job("b2", 1, project="b", runtime=10, priority=30),
            job("none", 1, runtime=10, priority=0),
        ],
    )
    assert list(found.by_project) == ["idle", "b", "a", "default"]
    assert [each.jobs for each in found.by_project.values()] == [0, 2, 1, 1]
    assert list(found.by_priority) == ["30", "0"]
    assert found.by_priority["30"].jobs == 2
    assert sum(each.slot_seconds for each in found.by_project.values()) == 40
