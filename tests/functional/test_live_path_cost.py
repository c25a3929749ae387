"""What the live path must reach, counted on the real handler (`benchmarks/promises.py`)."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.live import life, passes, submissions
from benchmarks.promises import broken


@pytest.mark.parametrize("name", ["2,000 lines", "a job of high rank that waits"])
def test_a_pass_costs_lines_and_decisions_never_what_waits(name: str):
    size = passes.sizes(short=False)[name]
    kept({"passes": {name: passes.world(size)}})


@pytest.mark.parametrize("name", submissions.SHORT)
def test_a_submission_costs_the_same_in_every_queue(name: str):
    kept({"submissions": {name: submissions.in_queue(submissions.QUEUES[name])}})


def test_a_jobs_life_costs_few_calls():
    kept({"life": life.measure()})


def kept(parts: dict[str, Any]) -> None:
    assert broken(parts) == []
