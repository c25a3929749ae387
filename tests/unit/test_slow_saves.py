"""Warnings of saves that take longer than a pool waits for them."""

from __future__ import annotations

import pytest

from slotq_core.routes.slow_saves import with_slow_saves
from slotq_core.wire.views.jobs import JobView, ProgressView, SavedView
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
        (31.0, 0, False),  # The pool asks nobody before it stops a job.
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
    for part in ("42 s", "5.0 s", "asynchronously", "suspend_grace"):
        assert part in warning


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
