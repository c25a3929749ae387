"""The schedules that a trace's figures are compared with."""

from __future__ import annotations

import pytest

from benchmarks.schedules import TraceJob, bound, fifo, first_fit


def job(name: str, submit: float, runtime: float, slots: int) -> TraceJob:
    return TraceJob(name=name, project="", submit=submit, runtime=runtime, slots=slots)


WIDE_IN_BETWEEN = [job("a", 0, 10, 1), job("wide", 1, 10, 2), job("b", 2, 5, 1)]


def test_nobody_passes_in_fifo():
    found = fifo(WIDE_IN_BETWEEN, 2)
    assert found.makespan == 25  # a until 10, the wide one until 20, then b
    assert found.wait_mean == pytest.approx((0 + 9 + 18) / 3)
    assert found.utilisation == pytest.approx(35 / 50)


def test_first_fit_leaves_no_slot_idle():
    found = first_fit(WIDE_IN_BETWEEN, 2)
    assert found.makespan == 20
    assert found.wait_p95 == 9


def test_the_bound_is_the_work_or_the_longest_job():
    assert bound(WIDE_IN_BETWEEN, 2).makespan == pytest.approx(35 / 2)
    assert bound([job("long", 0, 100, 1), job("b", 0, 10, 1)], 2).makespan == 100


@pytest.mark.parametrize("schedule", [fifo, first_fit])
def test_no_schedule_beats_the_bound(schedule):
    jobs = [job(f"{n:02d}", n * 3, 7 + n % 5 * 11, 1 + n % 3) for n in range(40)]
    assert schedule(jobs, 3).makespan >= bound(jobs, 3).makespan
