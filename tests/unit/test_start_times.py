"""The queue learns how long starts take, from its own attempts, at no call of its own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slotq_core.adapters.deployment_settings import parse_pools
from slotq_core.adapters.dynamodb.store import DynamoStore, table_definition
from slotq_core.adapters.initial_settings import take_in
from slotq_core.adapters.memory.store import MemoryStore
from slotq_core.model.jobs import MOST_EVICTIONS, Job
from slotq_core.model.pools import AUTO, LONGEST_AUTO, CapacityKind, Pool, PoolHealth
from slotq_core.operations.configuring.jobs_in_need import check_removal
from slotq_core.policy.lifecycle.apply import evicted, requeued
from slotq_core.policy.lifecycle.pool_health import (
    MOST_STARTS,
    after_a_start,
    forgotten,
    start_in,
    with_start,
)
from slotq_core.policy.state.candidates import protection
from slotq_core.ports.store import Store
from slotq_core.wire.document.contents import read
from slotq_core.wire.document.writing import written
from slotq_core.wire.scenario.pages import health_of
from slotq_core.wire.views.pools import health_view
from tests.faults.fake_dynamodb import FakeDynamo
from tests.queue_world import QueueWorld, pool

MINUTE = 60_000
NOW = 1_000_000
START = 240_000


def on_dynamodb() -> DynamoStore:
    engine = FakeDynamo()
    engine.create_table(**table_definition("t"))
    return DynamoStore(engine, "t")


def slow_world(store: Store, *pools: Pool, seconds: float = 240) -> QueueWorld:
    world = QueueWorld(*(pools or (pool(slots=3),)), runtime=30_000, store=store)
    world.plane.knobs.turn({"start_seconds": seconds})
    return world


@pytest.mark.parametrize("make_store", [MemoryStore, on_dynamodb])
def test_each_start_is_learned_with_its_age(make_store) -> None:
    world = slow_world(make_store())
    world.submit("a")
    world.deliver()
    assert world.store.health.get("p").starts == ()
    world.later(240)
    world.plane.knobs.turn({"start_seconds": 60})
    world.submit("b")
    world.deliver()
    world.later(60)
    found = world.store.health.get("p")
    assert (found.starts, found.started_at) == ((240_000, 60_000), world.clock.now())
    assert (found.start_time, found.slow_start) == (150_000, 240_000)
    (seen,) = world.store.worlds.load(world.clock.now()).snapshot.pools
    assert seen.health == found


@pytest.mark.parametrize("make_store", [MemoryStore, on_dynamodb])
def test_starts_that_end_together_are_all_learned(make_store) -> None:
    world = slow_world(make_store())
    for name in ("a", "b", "c"):
        world.submit(name)
    world.deliver()
    world.clock.set(world.clock.now() + START)
    world.plane.advance()
    world.events.clear()  # Lost: the reconciliation takes all three in at once.
    world.another_reconciler().reconcile()
    assert world.store.health.get("p").starts == (START,) * 3


def test_a_pool_remembers_the_last_starts() -> None:
    health = PoolHealth()
    for took in range(1, 31):
        health = with_start(health, took, at=took)
    assert health.starts == tuple(range(11, 31))
    assert (len(health.starts), health.started_at) == (MOST_STARTS, 30)
    assert (health.start_time, health.slow_start) == (20, 29)
    assert PoolHealth().slow_start is None
    assert with_start(health, 5, at=3).started_at == 30


def test_errors_that_are_over_leave_what_was_learned() -> None:
    ill = PoolHealth(errors=2, not_before=5, starts=(7, 9), started_at=3)
    for after in (after_a_start(ill), forgotten(ill)):
        assert (after.errors, after.starts, after.started_at) == (0, (7, 9), 3)


def ended(**fields: object) -> int | None:
    """How long the start took that began at NOW and ends after four minutes."""
    world = slow_world(MemoryStore())
    world.submit("a")
    world.deliver()
    job = world.job("a")
    assert job.attempt is not None
    parts = fields.pop("parts", ())
    before = replace(job, attempt=replace(job.attempt, **fields), parts=parts)
    assert before.attempt is not None
    runs_at = before.attempt.admitted_at + START
    after = replace(before, attempt=replace(before.attempt, running_since=runs_at))
    return start_in(before, after)


@pytest.mark.parametrize(
    "fields",
    [
        {"pending_since": NOW},
        {"capacity_kind": CapacityKind.SPOT},
        {"warm_from": "other"},
        {"node": "n"},
        {"interrupted_since": NOW},
        {"running_since": NOW},
        {"parts": (("p", {"slots": 1}),)},
    ],
)
def test_what_is_no_plain_start_does_not_count(fields) -> None:
    assert ended() == START
    assert ended(**fields) is None


def test_a_start_that_takes_no_time_shows_nothing() -> None:
    world = slow_world(MemoryStore(), seconds=0)
    world.submit("a")
    world.deliver()
    assert world.states() == {"a": "running"}
    assert world.store.health.get("p") == PoolHealth()


def test_the_health_of_a_pool_reads_back_from_its_view() -> None:
    health = PoolHealth(starts=(240_000, 61_500), started_at=NOW)
    view = health_view(health)
    assert (view.start_seconds, view.slow_start_seconds) == (150.75, 240)
    assert health_of(view) == health
    assert health_view(PoolHealth()).start_seconds is None


# The protection of `auto`


def auto_pool(*starts: int, minimum: int = AUTO) -> Pool:
    return pool(min_runtime=minimum, health=PoolHealth(starts=starts))


def starting() -> Job:
    world = slow_world(MemoryStore())
    world.submit("a")
    world.deliver()
    return world.job("a")


def test_auto_protects_a_job_that_starts_from_its_creation() -> None:
    job = starting()
    assert job.attempt is not None
    created, at = auto_pool(60_000), job.attempt.admitted_at
    assert protection(job, created, 0, at + 59_999) == (True, at + 60_000)
    assert protection(job, created, 0, at + 60_000) == (False, at + 60_000)
    assert protection(job, auto_pool(), 0, at) == (False, None)


def test_auto_protects_a_job_that_runs_from_its_start() -> None:
    job = starting()
    assert job.attempt is not None
    runs = replace(job, attempt=replace(job.attempt, running_since=NOW))
    assert protection(runs, auto_pool(60_000), 0, NOW + 59_999) == (True, NOW + 60_000)
    assert protection(runs, auto_pool(60_000), 0, NOW + 60_000) == (False, NOW + 60_000)
    assert protection(runs, auto_pool(60_000), 90_000, NOW + 60_000) == (True, NOW + 90_000)
    on_a_node = replace(runs, attempt=replace(runs.attempt, node="n"))
    assert protection(on_a_node, auto_pool(60_000), 0, NOW) == (False, None)


def test_auto_is_ten_minutes_at_most_and_a_number_stays_a_number() -> None:
    assert auto_pool(30 * MINUTE).auto_protection == LONGEST_AUTO == 10 * MINUTE
    assert auto_pool(30 * MINUTE, minimum=0).auto_protection == 0
    assert auto_pool(30 * MINUTE, minimum=5_000).auto_protection == 0


# The default of new pools


def pools_in(store: MemoryStore) -> dict[str, int]:
    return {pool.name: pool.min_runtime for pool in store.configuration.pools()}


def test_the_template_may_say_auto_and_0_is_the_default() -> None:
    store = MemoryStore()
    wanted = "old=1@ml.m5.large,new=1@ml.m5.large;min_runtime=auto"
    said = take_in(store, parse_pools(wanted), now=NOW, check_jobs=check_removal)
    assert (said, pools_in(store)) == ("", {"old": 0, "new": AUTO})


def test_a_pool_is_set_to_auto_and_back() -> None:
    world = QueueWorld(pool("old"))
    for wanted, kept in (("auto", AUTO), (0, 0), ("auto", AUTO)):
        world.manager.configuration.set_pool("old", {"min_runtime": wanted}, by="ann")
        assert [pool.min_runtime for pool in world.store.configuration.pools()] == [kept]
    settings = {"slots": 1, "instance_type": "ml.m5.large"}
    world.manager.configuration.set_pool("new", settings, by="ann")
    assert [pool.min_runtime for pool in world.store.configuration.pools()] == [AUTO, 0]


def test_a_document_says_auto_and_without_the_key_0() -> None:
    entry = {"name": "p", "capacity": 1, "instance_type": "ml.m5.large"}
    for key, minimum in (({}, 0), ({"min_runtime": "auto"}, AUTO), ({"min_runtime": 9}, 9_000)):
        settings = read({"pools": [{**entry, **key}]})
        assert settings.pools[0].min_runtime == minimum
        assert written(settings)["pools"][0].get("min_runtime") == key.get("min_runtime")


# What a job has paid


def test_a_job_keeps_when_others_took_its_slots() -> None:
    job = starting()
    assert evicted(job, "x", NOW).evicted_at == ()
    assert requeued(job, "ann", NOW).evicted_at == ()
    world = QueueWorld(runtime=1_000_000)
    world.submit("low")
    world.deliver()
    moments = []
    for number in range(MOST_EVICTIONS + 2):
        world.submit(f"high{number}", priority=1)
        world.deliver()
        moments.append(world.clock.now())
        world.plane.advance()
        world.later(121)
        world.manager.changes.cancel(f"high{number}", by="ann")
        world.later(121)
    assert world.job("low").evicted_at == tuple(moments[-MOST_EVICTIONS:])
