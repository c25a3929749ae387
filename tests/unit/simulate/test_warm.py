"""What if: instances that are warm now, and those that jobs leave in the forecast."""

from __future__ import annotations

import pytest

from slotq.simulate.whatif import ForecastInput, forecast
from slotq.simulate.whatif.forecast import RELEASE, Forecast, Runtimes
from slotq_core.model.pools import Pool
from slotq_core.wire.scenario.views import scenario_view
from tests.queue_world import QueueWorld
from tests.unit.test_warm_slots import MINUTE, OTHER_ROLE, done, submit, warm, world_of


def with_a_warm_slot(*pools: Pool) -> QueueWorld:
    """Of the last pool, after a job that has ended."""
    world = world_of(*pools, limit=len(pools))
    submit(world, "first", pools=pools[-1].name)
    world.deliver()
    done(world)
    return world


def foreseen(world: QueueWorld, runtime: int = MINUTE) -> Forecast:
    settings, revision = world.manager.configuration.settings()
    queue = world.manager.queue_snapshots.read()
    told = ForecastInput.of(scenario_view(queue, settings, revision))
    return forecast(told, hours=1, runtimes=Runtimes(every=runtime))


@pytest.mark.parametrize(
    ("role", "wait"), [({}, 0), ({"role": OTHER_ROLE}, RELEASE)], ids=["like", "other"]
)
def test_a_job_that_does_not_match_waits_for_the_release(role, wait):
    world = with_a_warm_slot(warm())
    submit(world, "next", **role)
    now = world.clock.now()
    assert foreseen(world).record.started("next") == [now + wait]


def test_of_two_pools_the_forecast_takes_the_warm_one():
    world = with_a_warm_slot(warm("p"), warm("q"))
    submit(world, "next", pools="p,q")
    (start,) = foreseen(world).first.decisions
    assert (start.pool, start.warm.pool) == ("q", "q")
    world.deliver()
    assert world.job("next").attempt.pool == "q"


def test_what_jobs_leave_in_the_forecast_is_warm_there():
    """Both wait for the same slot; the second one matches what the first one leaves."""
    world = with_a_warm_slot(warm())
    for name, role in (("like", {}), ("again", {}), ("other", {"role": OTHER_ROLE})):
        submit(world, name, **role)
        world.later(1)
    world.deliver()
    began = world.job("like").attempt.admitted_at
    record = foreseen(world).record
    (again,), (other,) = record.started("again"), record.started("other")
    assert 0 < again - began <= MINUTE + 3_000
    assert other - again == MINUTE + RELEASE


def test_a_release_that_is_under_way_goes_on():
    world = world_of(warm(), release_seconds=300)
    submit(world, "first")
    world.deliver()
    done(world)
    submit(world, "other", role=OTHER_ROLE)
    world.deliver()
    now = world.clock.now()
    assert foreseen(world).record.started("other") == [now + RELEASE]
