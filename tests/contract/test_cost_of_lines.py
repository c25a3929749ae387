"""The cost of a pass grows with what it decides: not with lines, and not with who waits in them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slotq_core.adapters.dynamodb.store import DynamoStore
from slotq_core.manager import QueueManager
from slotq_core.model.jobs import Job
from slotq_core.operations.passes import PassResult
from tests.contract.metered import Metered
from tests.contract.test_pass_cost import Fixed, Training
from tests.contract.worlds import NOW, REQUEST, a_job, a_pool, a_queue, commit, completing, runs

HOUR = 3_000_000


def waiting(number: int, line: int, **fields: Any) -> Job:
    described = {"priority": line, "entry_time": NOW - HOUR + number, **fields}
    return replace(a_job(f"waiting-{number:06d}", **described), version=1)


def with_bounds(store: DynamoStore) -> None:
    """Let passes have read every line."""
    while _read_names(store):
        store.load(NOW).keep_bounds()


def _read_names(store: DynamoStore) -> set[str]:
    snapshot = store.load(NOW).snapshot
    claimants = {job.name for job in snapshot.waiting if job.claim}
    return {job.name for job in snapshot.waiting} - snapshot.unread - claimants


def a_pass(store: DynamoStore) -> PassResult:
    clock = Fixed()
    manager = QueueManager(store=store, training=Training(), clock=clock, notifier=clock)
    return manager.run_pass()


@pytest.fixture
def metered() -> Metered:
    return Metered()


def test_one_decision_in_2000_lines(metered: Metered) -> None:
    store = metered.store()
    a_queue(store, a_pool("p5", 2))
    running = [runs(store, f"running-{n}", priority=3000) for n in range(2)]
    metered.fill(waiting(number, number % 2000) for number in range(4000))
    with_bounds(store)
    commit(store, completing(running[0]))
    # The job that starts is stored as a submission stores it, with its request.
    store.submit(a_job("first", priority=2500), REQUEST)
    metered.reset()
    result = a_pass(store)
    assert [type(decision).__name__ for decision in result.decisions] == ["Start"]
    assert metered.rounds <= 20, metered.calls
    assert metered.read_units <= 250, metered.read_units


def test_a_blocked_job_ahead_of_20000(metered: Metered) -> None:
    store = metered.store()
    a_queue(store, a_pool("p5", 500))
    for number in range(500):
        runs(store, f"running-{number}", priority=1, preemptible=False)
    metered.fill(waiting(number, number % 100, slots=1) for number in range(20_000))
    metered.fill([waiting(20_000, 9, slots=8)])
    with_bounds(store)
    metered.reset()
    assert a_pass(store).decisions == ()
    assert metered.read_units <= 150, metered.read_units
    assert metered.rounds <= 20, metered.calls
