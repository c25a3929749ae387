"""The time that one job's effect may take: a pass decides about the others first, and reports slow
calls."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError

import app
from slotq.local.services.training_service import PlaneClient
from slotq_core.adapters.sagemaker.service import LONGEST_CALL, sagemaker_client
from slotq_core.errors import Conflict
from slotq_core.model.attempts import StopCause, StopOrder
from slotq_core.model.jobs import JobState
from slotq_core.model.pools import Pool
from slotq_core.operations.attempts import observing
from slotq_core.operations.effects import HANDLER_LIFETIME, LONGEST_EFFECT, SLOW
from slotq_core.operations.passes import PASS_BUDGET
from slotq_core.ports.stored import Change
from tests.queue_world import QueueWorld, pool


class Sluggish(PlaneClient):
    """Gives no answer about these training jobs for as long as one call may take."""

    def __init__(self, world: QueueWorld, *names: str) -> None:
        super().__init__(world.plane)
        self._clock = world.clock
        self.slow = set(names)
        self.calls: list[str] = []

    def _call(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        name = request.get("TrainingJobName", "")
        self.calls.append(f"{operation} {name}")
        if name in self.slow:
            self._clock.set(self._clock.now() + LONGEST_CALL)
            raise ReadTimeoutError(endpoint_url="sagemaker")
        return super()._call(operation, request)

    def created(self) -> list[str]:
        """The created training jobs in order; clears the list."""
        calls, self.calls = self.calls, []
        return [name for call in calls if (name := call.removeprefix("CreateTrainingJob ")) != call]


def with_slow(
    *names: str, pools: tuple[Pool, ...] = (pool(slots=9),)
) -> tuple[QueueWorld, Sluggish]:
    world = QueueWorld(*pools)
    client = world.client = Sluggish(world, *names)
    return world, client


def later(world: QueueWorld) -> None:
    world.clock.set(world.clock.now() + HANDLER_LIFETIME)


def test_a_pass_decides_before_it_repeats_slow_calls():
    world, client = with_slow("slow")
    world.submit("slow")
    world.manager.passes.run()
    later(world)
    world.submit("quick")
    client.created()
    began = world.clock.now()
    result = world.manager.passes.run()
    assert client.created() == ["quick", "slow"]
    assert world.job("quick").attempt.admitted_at == began
    assert [decision.job.name for decision in result.decisions] == ["quick"]


def test_a_pass_tries_nothing_twice():
    world, client = with_slow("slow")
    world.submit("slow")
    world.manager.passes.run()
    later(world)
    client.created()
    result = world.manager.passes.run()
    assert client.created() == ["slow"]
    assert not result.unfinished
    assert world.job("slow").state is JobState.STARTING


def test_slow_calls_are_reported():
    world, _ = with_slow("slow")
    world.submit("slow")
    assert world.manager.passes.run().troubles == (
        'slow: CreateTrainingJob slow: Read timeout on endpoint URL: "sagemaker"',
        "slow: the call took 27.0 s; the job goes last from now on",
    )


def test_slow_effects_come_last_among_unfinished_ones():
    world, client = with_slow("a-slow", "b-slow")
    for name in ("a-slow", "b-slow", "c", "d"):
        world.submit(name)
    world.manager.passes.run()
    assert client.created() == ["a-slow", "b-slow"]
    later(world)
    client.created()
    world.manager.passes.run()
    assert client.created() == ["c", "d", "a-slow", "b-slow"]
    assert {name: status for name, status in world.states().items() if "slow" not in name} == {
        "c": "starting",
        "d": "starting",
    }


def test_slow_effects_come_last_among_new_decisions():
    """SageMaker took long to report a lack of capacity. The job is tried again first, but no job
    behind it waits for its effect."""
    world, client = with_slow(pools=(pool("p"), pool("q")))
    create = client.create_training_job

    def refused(**request: Any) -> dict[str, Any]:
        world.clock.set(world.clock.now() + SLOW)
        world.plane.knobs.refuse_creates = 1
        return create(**request)

    client.create_training_job = refused  # type: ignore[method-assign]
    world.submit("slow", priority=9)
    world.manager.passes.run()
    found = world.store.jobs.with_attempts("slow")
    assert found and [attempt.pool for attempt in found[1]] == ["p", "q"]
    del client.create_training_job
    later(world)
    world.submit("next")
    client.created()
    result = world.manager.passes.run()
    assert [decision.job.name for decision in result.decisions] == ["slow", "next"]
    assert [name.partition("-qstamp-")[0] for name in client.created()] == ["next", "slow"]


def test_no_effect_begins_without_time_and_that_is_reported():
    names = {f"slow{n}" for n in range(4)}
    world, client = with_slow(*names)
    for name in names:
        world.submit(name)
    passes = [world.manager.passes.run() for _ in range(2)]
    assert all(each.unfinished for each in passes)
    later(world)
    client.created()
    told = world.manager.passes.run().troubles
    tried = set(client.created())
    assert len(tried) == 2
    assert {trouble for trouble in told if "no time" in trouble} == {
        f"{name}: no time left in this pass" for name in names - tried
    }


def test_an_effect_of_several_calls_ends_when_late():
    """The first call asks whether a create took effect, and its answer is late."""
    world, client = with_slow()
    world.submit("job1")
    world.deliver()
    job = world.job("job1")
    describe = client.describe_training_job

    def slowly(**request: Any) -> dict[str, Any]:
        world.clock.set(world.clock.now() + LONGEST_EFFECT)
        return describe(**request)

    client.describe_training_job = slowly  # type: ignore[method-assign]
    left = unconfirmed(world, job.name)
    client.calls.clear()
    world.manager.passes.run()
    assert left.attempt.stop is not None
    assert not [call for call in client.calls if call.startswith("StopTrainingJob")]
    assert not world.job("job1").attempt.stop.sent
    del client.describe_training_job
    world.manager.passes.run()
    assert world.job("job1").attempt.stop.sent


def unconfirmed(world: QueueWorld, name: str) -> Any:
    """The job is to be stopped, and nobody has recorded whether it was created."""
    job = world.job(name)
    order = StopOrder(cause=StopCause.CANCELLED, by="ann", at=world.clock.now())
    attempt = replace(job.attempt, created=False, stop=order)
    after = replace(job, state=JobState.STOPPING, attempt=attempt)
    (left,) = world.store.decisions.commit([Change(before=job, after=after)])
    later(world)
    return left


def test_a_refusal_is_read_once_even_if_others_change_the_job(monkeypatch):
    read = []

    def counted(text: str, request: Any) -> str:
        read.append(text)
        return text

    monkeypatch.setattr(observing, "without_secrets", counted)
    world, _ = with_slow()
    world.submit("job1")
    commit, conflicts = world.store.decisions.commit, [3]

    def contended(changes: Any, **more: Any) -> Any:
        if read and conflicts[0]:
            conflicts[0] -= 1
            raise Conflict("somebody else was quicker")
        return commit(changes, **more)

    world.store.decisions.commit = contended  # type: ignore[method-assign]
    world.plane.knobs.refuse_creates = 1
    world.manager.passes.run()
    assert conflicts == [0]
    assert len(read) == 1


def test_a_calls_timeout_fits_in_a_pass_and_in_the_time_after_it():
    config = sagemaker_client_config()
    tries = config.retries["total_max_attempts"]
    waits = sum(2**n for n in range(tries - 1))
    longest = 1000 * (tries * (config.connect_timeout + config.read_timeout) + waits)
    assert longest == LONGEST_CALL < PASS_BUDGET
    assert app.TIME_TO_END >= LONGEST_CALL
    assert PASS_BUDGET + LONGEST_CALL < HANDLER_LIFETIME


def sagemaker_client_config() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        return sagemaker_client().meta.config
