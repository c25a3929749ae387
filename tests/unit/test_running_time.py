"""A class's running time is exact: over attempts, lost and repeated news, and late passes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from slotq_core.adapters.dynamodb.store import DynamoStore, table_definition
from slotq_core.adapters.memory.store import MemoryStore
from slotq_core.adapters.sagemaker.observations import observation_of
from slotq_core.model.sharing import Sharing
from slotq_core.model.users import PriorityClass
from slotq_core.operations.amend import Amendment
from slotq_core.ports.store import Store
from tests.faults.fake_dynamodb import FakeDynamo
from tests.queue_world import START, QueueWorld

CLASSES = (
    PriorityClass(name="SPRINT", value=20, demote_to="NORMAL", demote_after=1_800_000),
    PriorityClass(name="NORMAL", value=10),
)


def on_dynamodb() -> DynamoStore:
    engine = FakeDynamo()
    engine.create_table(**table_definition("t"))
    return DynamoStore(engine, "t")


@pytest.fixture(params=[MemoryStore, on_dynamodb])
def world(request: pytest.FixtureRequest) -> QueueWorld:
    """A queue in which the job of a class that demotes has been submitted."""
    make: Callable[[], Store] = request.param
    world = QueueWorld(runtime=10**9, store=make())
    world.store.configuration.change(sharing=Sharing(classes=CLASSES), who="test", now=START)
    world.submit("job", priority="SPRINT")
    world.manager.passes.run()
    return world


def give_up(world: QueueWorld) -> None:
    """Ask for the end of the attempt: no decision of the queue, so no pass demotes before it."""
    wanted = Amendment(give_up=world.job("job").attempts)
    world.manager.changes.amend("job", wanted, by="ann")


def news(world: QueueWorld) -> list[dict[str, Any]]:
    world.plane.advance()
    events, world.events[:] = list(world.events), []
    return events


def hear(world: QueueWorld, events: list[dict[str, Any]]) -> None:
    for event in events:
        world.manager.observe(observation_of(event["detail"], at=world.clock.now()))


def sleep(world: QueueWorld, seconds: int) -> None:
    """Let time pass without news and passes."""
    world.clock.set(world.clock.now() + seconds * 1000)


def stands(world: QueueWorld) -> tuple[str, int, int]:
    job = world.job("job")
    return job.priority_class, job.priority, job.ran // 1000


def test_running_time_adds_up_over_attempts(world: QueueWorld) -> None:
    world.deliver()
    for ran in (600, 1200):
        world.later(600)
        give_up(world)
        world.deliver()
        assert stands(world) == ("SPRINT", 20, ran)
    world.later(599)
    assert stands(world) == ("SPRINT", 20, 1200)
    world.later(1)
    assert stands(world) == ("NORMAL", 10, 1200)
    give_up(world)
    world.deliver()
    assert stands(world) == ("NORMAL", 10, 1800), "its class does not come back"


def test_repeated_news_of_an_end_counts_once(world: QueueWorld) -> None:
    world.deliver()
    sleep(world, 600)
    give_up(world)
    ends = news(world)
    for _ in range(3):
        hear(world, ends)
    assert stands(world) == ("SPRINT", 20, 600)


def test_an_attempt_whose_start_was_never_heard_of_counts(world: QueueWorld) -> None:
    """EventBridge delivers at best; the news of the end tells the start too."""
    assert news(world), "lost"
    sleep(world, 600)
    give_up(world)
    hear(world, news(world)[-1:])
    assert stands(world) == ("SPRINT", 20, 600)
    kept = world.store.jobs.with_attempts("job")
    assert kept is not None
    (attempt,) = kept[1]
    assert attempt.running_since == START


def test_news_that_comes_late_counts_from_the_start(world: QueueWorld) -> None:
    late = news(world)
    sleep(world, 300)
    hear(world, late)
    sleep(world, 300)
    give_up(world)
    hear(world, news(world))
    assert stands(world) == ("SPRINT", 20, 600)


def test_an_end_before_the_pass_that_would_demote_demotes(world: QueueWorld) -> None:
    """Else the job would wait, and evict others, by a rank that it has used up."""
    world.deliver()
    sleep(world, 1801)
    give_up(world)
    hear(world, news(world))
    assert stands(world) == ("NORMAL", 10, 1801)
    assert world.job("job").admitted_class == "SPRINT"
