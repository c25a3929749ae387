"""The cost of a pass grows with what it decides: not with lines, and not with who waits in them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slotq_core.adapters.dynamodb.store import DynamoStore
from slotq_core.manager import QueueManager
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.sharing import SchedulerSettings, Sharing
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
        store.worlds.load(NOW).keep_bounds()


def _read_names(store: DynamoStore) -> set[str]:
    snapshot = store.worlds.load(NOW).snapshot
    claimants = {job.name for job in snapshot.waiting if job.claim}
    return {job.name for job in snapshot.waiting} - snapshot.unread - claimants


def a_pass(store: DynamoStore) -> PassResult:
    clock = Fixed()
    manager = QueueManager(store=store, training=Training(), clock=clock, notifier=clock)
    return manager.passes.run()


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
    store.jobs.submit(a_job("first", priority=2500), REQUEST)
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


FLARE = SchedulerSettings(max_schedule_count=10)


def backing_off(number: int, line: int, until: int) -> Job:
    """A job between two attempts to start."""
    tried = {"state": JobState.BACKOFF, "not_before": until, "cause": "not_scheduled"}
    return waiting(number, line, **tried, schedule_attempts=3)


def a_full_pool(metered: Metered, scheduler: SchedulerSettings, *, free: int = 0) -> DynamoStore:
    store = metered.store()
    a_queue(store, a_pool("p5", 20 + free))
    store.configuration.change(sharing=Sharing(scheduler=scheduler), who="test", now=NOW)
    for number in range(20):
        runs(store, f"running-{number}", priority=5000)
    return store


def test_what_max_jobs_keeps_back_costs_no_read(metered: Metered) -> None:
    """A job that `max_jobs` keeps back fails no attempt, so its line is not read."""
    settings = replace(FLARE, max_jobs=20)
    store = a_full_pool(metered, settings, free=9)
    metered.fill(waiting(number, number % 100) for number in range(10_000))
    with_bounds(store)
    metered.reset()
    assert a_pass(store).decisions == ()
    assert metered.read_units <= 60, metered.read_units
    assert metered.rounds <= 12, metered.calls


def test_who_backs_off_costs_a_pass_one_read_a_line(metered: Metered) -> None:
    """Between attempts jobs wait in no line: a pass reads the earliest back-offs, and looks into
    each of the 100 lines, where a job may have come whose attempt fails."""
    store = a_full_pool(metered, FLARE)
    metered.fill(backing_off(number, number % 100, NOW + HOUR) for number in range(5_000))
    store.worlds.load(NOW).keep_bounds()
    metered.reset()
    assert a_pass(store).decisions == ()
    assert metered.read_units <= 125, metered.read_units
    assert metered.rounds <= 25, metered.calls


def test_an_attempt_costs_what_its_own_job_costs(metered: Metered) -> None:
    """One is due of 2,000: it returns to its line, is tried and backs off again. That takes two
    plans, each with a look into the 100 lines, and none reads who backs off."""
    store = a_full_pool(metered, FLARE)
    metered.fill(backing_off(number, number % 100, NOW + HOUR) for number in range(2_000))
    metered.fill([backing_off(2_000, 7, NOW)])
    store.worlds.load(NOW).keep_bounds()
    metered.reset()
    decided = [type(decision).__name__ for decision in a_pass(store).decisions]
    assert decided == ["EndBackoff", "TryLater"]
    tried = store.jobs.get("waiting-002000")
    assert tried is not None
    assert tried.schedule_attempts == 4
    assert tried.not_before == tried.changed_at + 80_000
    assert metered.read_units <= 270, metered.read_units
    assert metered.rounds <= 60, metered.calls
