"""Warnings of saves that take longer than an eviction leaves them."""

from __future__ import annotations

import pytest

from slotq.jobs.notices import Warned
from slotq_core.api.jobs import with_slow_saves
from slotq_core.model.attempts import Attempt, AttemptOutcome, StopCause, StopOrder
from slotq_core.model.jobs import JobState
from slotq_core.model.reports import Report, Saved, slow_save_of, with_report
from slotq_core.wire.views.jobs import JobView, ProgressView, SavedView, attempt_view, job_view
from tests.contract.worlds import a_job
from tests.unit.client.fake_queue import MOMENT, running


def saves_in(seconds: float | None, **fields) -> JobView:
    saved = SavedView(step=10, at=MOMENT, took_seconds=seconds)
    return running(progress=ProgressView(step=12, of=100, at=MOMENT, saved=saved), **fields)


@pytest.mark.parametrize(
    ("took", "grace", "warns"),
    [
        (31.0, 30_000, True),
        (30.0, 30_000, False),
        (0.5, 400, True),
        (None, 30_000, False),
        (31.0, 0, False),  # The pool asks nobody: SageMaker's stop leaves 120 s.
        (120.0, 0, False),
        (120.5, 0, True),
        (float("nan"), 30_000, False),
    ],
)
def test_a_save_slower_than_the_grace_is_warned_of(took, grace: int, warns: bool):
    (view,) = with_slow_saves([saves_in(took)], lambda: {"p5": grace})
    assert bool(view.warnings) is warns


def test_the_warning_has_both_times_and_says_what_to_do():
    (view,) = with_slow_saves([saves_in(42.4, warnings=["first"])], lambda: {"p5": 5_000})
    first, warning = view.warnings
    assert first == "first"
    for part in ("42 s", "5.0 s", "120 s", "asynchronously", "suspend_grace of 45 s"):
        assert part in warning
    assert view.slow_save is not None
    assert view.slow_save.text == warning
    slow = view.slow_save
    assert (slow.took_seconds, slow.grace_seconds, slow.stop_seconds) == (42.4, 5, 120)


@pytest.mark.parametrize(
    ("took", "grace", "lost"),
    [(42.0, 5_000, False), (125.0, 5_000, False), (126.0, 5_000, True), (121.0, 0, True)],
)
def test_it_says_whether_such_a_save_is_lost(took, grace: int, lost: bool):
    (view,) = with_slow_saves([saves_in(took)], lambda: {"p5": grace})
    assert view.slow_save is not None
    assert view.slow_save.lost is lost
    assert ("such a save is lost" in view.slow_save.text) is lost


@pytest.mark.parametrize("changes", [{"preemptible": False}, {"workload": "interactive"}])
def test_a_job_that_nobody_evicts_is_not_warned(changes):
    (view,) = with_slow_saves([saves_in(500.0, **changes)], lambda: {"p5": 1_000})
    assert (view.slow_save, view.warnings) == (None, [])


def test_a_user_hears_of_it_once_whatever_the_later_numbers_are():
    lines: list[str] = []
    warned = Warned(lines.append)
    for took in (42.0, 43.0, 50.0):
        (view,) = with_slow_saves([saves_in(took)], lambda: {"p5": 5_000})
        warned.report(view)
    (line,) = lines
    assert "42 s" in line


def stopped(cause: StopCause, *, grace: int | None, took: int) -> Attempt:
    """An attempt whose save took so long (ms), stopped at 1,000 s."""
    until = None if grace is None else 1_000_000 + grace
    attempt = Attempt(
        number=1, training_job="job1", token="t", pool="p5", instance_type="ml.p5.48xlarge",
        admitted_at=0, running_since=0, ended_at=1_100_000, outcome=AttemptOutcome.EVICTED,
        stop=StopOrder(cause=cause, by="job2", at=1_000_000, grace_until=until),
    )  # fmt: skip
    return with_report(attempt, Report(saved=Saved(step=10, at=400_000, took=took)))


def test_the_history_of_an_evicted_attempt_says_it_with_its_numbers():
    view = attempt_view(stopped(StopCause.EVICTED, grace=30_000, took=42_000))
    assert view.saved is not None
    assert view.saved.took_seconds == 42
    for part in ("its last save took 42 s", "30 s", "suspend_grace of 45 s"):
        assert part in view.warning


@pytest.mark.parametrize(
    ("cause", "grace", "took", "slow"),
    [
        (StopCause.EVICTED, None, 130_000, True),
        (StopCause.EVICTED, None, 100_000, False),
        (StopCause.YIELDED, 5_000, 6_000, True),
        (StopCause.REQUEUED, None, 130_000, True),
        (StopCause.CANCELLED, None, 130_000, False),
    ],
)
def test_an_attempt_that_was_not_evicted_had_no_need_of_time(cause, grace, took, slow: bool):
    assert (slow_save_of(stopped(cause, grace=grace, took=took)) is not None) is slow


def test_the_pools_are_asked_at_most_once_and_only_if_somebody_saves():
    asked = []

    def graces():
        asked.append(1)
        return {"p5": 1_000}

    assert [*with_slow_saves([running(), saves_in(None)], graces)]
    assert asked == []
    views = [*with_slow_saves([saves_in(9.0), saves_in(9.0, pool="gone")], graces)]
    assert [len(view.warnings) for view in views] == [1, 0]
    assert asked == [1]


@pytest.mark.parametrize(("state", "warned"), [("preempted", True), ("cancelled", False)])
def test_a_job_that_waits_again_is_warned_as_while_it_ran(state, warned: bool):
    last = stopped(StopCause.EVICTED, grace=None, took=130_000)
    view = job_view(a_job("job1", state=JobState(state)), attempts=[last])
    assert (view.slow_save is not None) is warned
    assert view.warnings == ([view.slow_save.text] if view.slow_save else [])
