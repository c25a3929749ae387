"""Many at once: decisions of a plan, confirmations and unseen ends in as few transactions as hold
them, and what one of them does to the others."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from slotq_core.adapters.memory.store import MemoryStore
from slotq_core.errors import Unavailable
from slotq_core.model.jobs import JobState
from slotq_core.operations.effects import CONFIRM_WITHIN, TAKEN_BACK_WITHIN
from slotq_core.operations.passes import AHEAD
from slotq_core.operations.reconcile import RECONCILE_EVERY
from tests.queue_world import QueueWorld, pool

S = JobState
NAMES = [f"job{n:02d}" for n in range(12)]
FULL = (
    "The account-level service limit 'ml.m5.large for training job usage' is 2 Instances, with "
    "current utilization of 2 Instances and a request delta of 1 Instances"
)


def waiting(*names: str, **fields: Any) -> QueueWorld:
    """These jobs wait, and there is room for all of them."""
    world = QueueWorld(pool(slots=len(names)), **fields)
    for name in names:
        world.submit(name)
    return world


def commits(world: QueueWorld) -> list[list[str]]:
    """The jobs of each transaction from now on."""
    seen: list[list[str]] = []
    commit = world.store.decisions.commit

    def noted(changes: Any, **more: Any) -> Any:
        jobs = commit(changes, **more)
        seen.append([job.name for job in jobs])
        return jobs

    world.store.decisions.commit = noted
    return seen


def refusing(world: QueueWorld, code: str, *numbers: int) -> list[str]:
    """SageMaker refuses the creates of these numbers, from 1 on. Returns all that are asked."""
    asked: list[str] = []
    create = world.client.create_training_job

    def refused(**request: Any) -> Any:
        asked.append(request["TrainingJobName"])
        if len(asked) in numbers:
            raise ClientError({"Error": {"Code": code, "Message": FULL}}, "CreateTrainingJob")
        return create(**request)

    world.client.create_training_job = refused
    return asked


def test_starts_of_one_plan_share_transactions_and_so_do_their_confirmations():
    world = waiting(*NAMES)
    seen = commits(world)
    world.manager.passes.run()
    assert seen == [NAMES, NAMES]
    assert all(world.job(name).attempt.created for name in NAMES)


def test_no_transaction_takes_more_than_the_store_holds():
    world = waiting(*NAMES, store=MemoryStore(most_changes=5))
    seen = commits(world)
    world.manager.passes.run()
    assert [len(jobs) for jobs in seen] == [5, 5, 2, 5, 5, 2]


def test_calls_are_confirmed_soon_after_they_were_made():
    world = waiting(*NAMES)
    create = world.client.create_training_job

    def slow(**request: Any) -> Any:
        world.clock.set(world.clock.now() + CONFIRM_WITHIN // 2)
        return create(**request)

    world.client.create_training_job = slow
    seen = commits(world)
    world.manager.passes.run()
    confirmed = [jobs for jobs in seen if len(jobs) < len(NAMES)]
    assert [len(jobs) for jobs in confirmed] == [3] * (len(NAMES) // 3)


def test_a_job_that_has_changed_stops_no_other_decision_of_its_transaction():
    world = waiting(*NAMES)
    commit, other = world.store.decisions.commit, world.another_manager()

    def late(changes: Any, **more: Any) -> Any:
        world.store.decisions.commit = commit
        other.changes.cancel("job05", by="ann")
        return commit(changes, **more)

    world.store.decisions.commit = late
    world.manager.passes.run()
    states = world.states()
    assert states.pop("job05") == "cancelled"
    assert set(states.values()) == {"starting"}


def test_a_cancel_between_the_start_and_its_create_stops_that_job_alone():
    world = waiting(*NAMES)
    create, other = world.client.create_training_job, world.another_manager()

    def cancelled(**request: Any) -> Any:
        world.client.create_training_job = create
        other.changes.cancel("job05", by="ann")
        return create(**request)

    world.client.create_training_job = cancelled
    world.manager.passes.run()
    world.deliver()
    states = world.states()
    world.later(0)
    assert states.pop("job05") in {"stopping", "cancelled"}
    assert set(states.values()) == {"running"}
    assert world.states()["job05"] == "cancelled"


@pytest.mark.parametrize("code", ["ThrottlingException", "ResourceLimitExceeded"])
def test_a_failed_create_gives_further_starts_their_places_back(code: str):
    world, left = waiting(*NAMES), NAMES[3:]
    asked = refusing(world, code, 3)
    seen = commits(world)
    before = {name: world.job(name) for name in left}
    world.store.worlds.load = once(world.store.worlds.load)
    with pytest.raises(StopIteration):
        world.manager.passes.run()
    assert asked == NAMES[:3]
    assert sorted(seen[-1]) == left
    for name in left:
        job = world.job(name)
        assert (job.state, job.attempts, job.attempt) == (S.PENDING, 0, None)
        assert job.entry_time == before[name].entry_time


def once(load: Any) -> Any:
    """Loads once, then ends the pass."""
    calls = iter([load])

    def loaded(now: int) -> Any:
        return next(calls)(now)

    return loaded


def test_after_a_failed_call_jobs_start_one_by_one_and_soon_many_again():
    world = waiting(*NAMES)
    asked = refusing(world, "ThrottlingException", 1)
    seen = commits(world)
    world.manager.passes.run()
    started = [len(jobs) for jobs in seen if jobs and jobs[0] not in asked[:1]]
    assert AHEAD[0] >= len(NAMES)
    assert asked[0] == NAMES[0]
    assert [world.job(name).attempt is not None for name in NAMES] == [True] * len(NAMES)
    assert 1 in started
    assert max(started) > 1


def test_a_start_that_others_may_try_is_not_taken_back():
    world = waiting(*NAMES)
    create = world.client.create_training_job

    def stalls(**request: Any) -> Any:
        world.clock.set(world.clock.now() + TAKEN_BACK_WITHIN)
        return create(**request)

    world.client.create_training_job = stalls
    world.manager.passes.run()
    assert set(world.states().values()) == {"starting"}
    assert [job for job in NAMES if world.job(job).attempt.created] == NAMES[:1]


def ended(*names: str, **fields: Any) -> QueueWorld:
    """These jobs have ended, and no event told of it."""
    world = waiting(*names, **fields)
    world.deliver()
    world.plane.knobs.lose_events = 1_000_000
    world.clock.set(world.clock.now() + max(RECONCILE_EVERY, world.runtime))
    world.plane.advance()
    return world


def test_a_tick_records_many_ends_together_and_starts_those_who_wait():
    world = ended(*NAMES)
    for name in ("next1", "next2"):
        world.submit(name)
    seen = commits(world)
    result = world.manager.tick()
    assert [finding.kind for finding in result.findings] == ["ended_unseen"] * len(NAMES)
    assert [sorted(jobs) for jobs in seen] == [NAMES, ["next1", "next2"], ["next1", "next2"]]


def test_many_lessons_of_a_pool_are_one_write():
    world = ended(*NAMES)
    for name in NAMES[2:]:
        there = world.plane.job(name)
        there.status, there.secondary = "Failed", "Failed"
        there.failure_reason = "CapacityError: Unable to provision requested ML compute capacity"
    written, keep = [], world.store.health.set

    def noted(pool: str, health: Any) -> None:
        written.append(health.errors)
        keep(pool, health)

    world.store.health.set = noted
    world.manager.tick()
    assert written == [10]
    assert set(world.states().values()) == {"completed", "pending"}


def test_an_end_that_an_event_reports_meanwhile_is_no_finding_and_stops_no_other():
    world = ended(*NAMES)
    commit, other = world.store.decisions.commit, world.another_manager()

    def late(changes: Any, **more: Any) -> Any:
        world.store.decisions.commit = commit
        seen = other._training.describe("job05")
        other.observe(seen)
        return commit(changes, **more)

    world.store.decisions.commit = late
    found = world.manager.tick().findings
    assert sorted(finding.subject for finding in found) == [n for n in NAMES if n != "job05"]
    assert set(world.states().values()) == {"completed"}


def test_ends_without_time_are_left_to_the_next_tick():
    world = ended(*NAMES)
    describe = world.client.describe_training_job

    def slow(**request: Any) -> Any:
        world.clock.set(world.clock.now() + 4_000)
        return describe(**request)

    world.client.describe_training_job = slow
    first = world.manager.tick(budget=30_000)
    assert 0 < len(first.findings) < len(NAMES)
    assert not first.unfinished  # The pass had its own half of the time.
    world.clock.set(world.clock.now() + 60_000)
    second = world.manager.tick(budget=30_000)
    assert len(second.findings) > 0
    done = {finding.subject for finding in (*first.findings, *second.findings)}
    assert {name for name in NAMES if world.states()[name] == "completed"} == done


def test_training_jobs_are_described_one_by_one_while_sagemaker_throttles():
    world = ended(*[f"job{n:03d}" for n in range(130)], store=MemoryStore(most_changes=50))
    at_once: list[int] = []
    describe, asked = world.client.describe_training_job, []

    def throttled(**request: Any) -> Any:
        asked.append(request)
        if len(asked) == 5:
            said = {"Error": {"Code": "ThrottlingException", "Message": "Rate exceeded"}}
            raise ClientError(said, "DescribeTrainingJob")
        return describe(**request)

    def together(call: Any, many: Any) -> Any:
        at_once.append(len(many))
        return [call(argument) for argument in many]

    world.client.describe_training_job = throttled
    reconciler = world.another_reconciler()
    reconciler._at_once = together
    found = reconciler.reconcile()
    assert at_once == [100]
    assert sorted({finding.kind for finding in found}) == ["ended_unseen", "trouble"]
    assert len(found) == 130


def test_fewer_jobs_start_together_while_sagemaker_is_slow():
    world = waiting(*[f"job{n:02d}" for n in range(40)])
    create = world.client.create_training_job

    def slow(**request: Any) -> Any:
        world.clock.set(world.clock.now() + 600)
        return create(**request)

    world.client.create_training_job = slow
    seen = commits(world)
    world.manager.passes.run()
    assert [len(jobs) for jobs in seen if len(jobs) > 3] == [
        16,
        8,
        16,
    ]  # The rest are confirmations.


def test_what_is_committed_takes_effect_though_the_table_stops_to_answer():
    world = waiting(*NAMES, store=MemoryStore(most_changes=5))
    commit, seen = world.store.decisions.commit, []

    def fails(changes: Any, **more: Any) -> Any:
        seen.append(len(changes))
        if len(seen) == 2:
            raise Unavailable("throttled")
        return commit(changes, **more)

    world.store.decisions.commit = fails
    with pytest.raises(Unavailable):
        world.manager.passes.run()
    assert seen == [5, 5, 5]
    assert [name for name in NAMES if world.job(name).attempt] == NAMES[:5]
    assert all(world.job(name).attempt.created for name in NAMES[:5])
