"""Unreadable items are reported once, quarantined, and stop nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from slotq_core.errors import NotUnderstood, Unavailable
from slotq_core.ports.stored import Poison, World
from slotq_core.ports.training import Observation, Phase
from tests.queue_world import QueueWorld

BROKEN = Poison(key="JOB#odd JOB", reason="it has no jobState")


class Poisoned:
    """A store with an unreadable item until that is quarantined."""

    def __init__(self, world: QueueWorld) -> None:
        self.found: tuple[Poison, ...] = (BROKEN,)
        self.quarantined: list[Poison] = []
        self.refuse: Exception | None = None
        self._load = world.store.worlds.load
        world.store.worlds.load = self.load
        world.store.repair.quarantine = self.quarantine

    def load(self, now: int) -> World:
        return replace(self._load(now), poison=self.found)

    def quarantine(self, poison: Poison) -> None:
        if self.refuse:
            raise self.refuse
        self.quarantined.append(poison)
        self.found = ()


def test_an_unreadable_item_is_reported_once_and_stops_nothing():
    world = QueueWorld()
    poisoned = Poisoned(world)
    world.submit("job1")
    result = world.manager.passes.run()
    assert result.troubles == ("JOB#odd JOB: it has no jobState",)
    assert world.letters == [("item", "JOB#odd JOB", "it has no jobState")]
    assert poisoned.quarantined == [BROKEN]
    assert world.states() == {"job1": "starting"}


def test_an_item_that_cannot_be_quarantined_is_still_reported_once():
    world = QueueWorld()
    poisoned = Poisoned(world)
    poisoned.refuse = Unavailable("no answer")
    for _ in range(3):
        result = world.manager.passes.run()
    assert len(world.letters) == 1
    assert result.troubles == ("JOB#odd JOB: could not be set aside: no answer",)
    poisoned.refuse = None
    world.manager.passes.run()
    assert poisoned.quarantined == [BROKEN]
    assert len(world.letters) == 1


def test_an_event_of_an_unreadable_job_goes_to_the_dead_letters():
    world = QueueWorld()
    world.submit("job1")
    world.deliver()

    def unreadable(name: str) -> Any:
        raise NotUnderstood(f"job {name} has no state")

    job, world.store.jobs.get = world.store.jobs.get, unreadable
    news = Observation(training_job="job1", phase=Phase.COMPLETED, at=0)
    world.manager.observe(news)
    world.manager.observe(news)
    assert world.letters == [("job", "job1", "job job1 has no state")]
    world.store.jobs.get = job
    assert world.states() == {"job1": "running"}
