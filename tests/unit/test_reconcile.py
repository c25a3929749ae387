"""Reconciliation with the real adapter and our training plane: findings, repairs, what it never
touches, and its calls."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from slotq_core.adapters.sagemaker.service import LONGEST_LISTING
from slotq_core.errors import Unavailable
from slotq_core.model.jobs import JobState
from slotq_core.operations.effects import HANDLER_LIFETIME
from slotq_core.operations.reconcile import LONGEST_INTERVAL, RECONCILE_EVERY
from slotq_core.ports.stored import Finding
from slotq_core.ports.training import Observation, Phase
from tests.queue_world import QueueWorld, pool, request

MINUTE = 60
ALL_DAY = 86_400_000


def running(*names: str, **fields: Any) -> QueueWorld:
    """These jobs run, and no event arrives any more."""
    world = QueueWorld(pool(slots=8), runtime=fields.pop("runtime", ALL_DAY))
    for name in names:
        world.submit(name, **fields)
    world.deliver()
    world.plane.knobs.lose_events = 1_000_000
    return world


def wait(world: QueueWorld, seconds: float) -> None:
    """Time passes in SageMaker while the queue does nothing."""
    world.clock.set(world.clock.now() + round(seconds * 1000))
    world.plane.advance()


def reconcile(world: QueueWorld, **how: Any) -> list[Finding]:
    return world.another_reconciler().reconcile(**how)


def kinds(found: list[Finding]) -> list[tuple[str, str, bool]]:
    return [(finding.kind, finding.subject, finding.mended) for finding in found]


def start_outside(world: QueueWorld, name: str, *, instances: int = 1, **tags: str) -> None:
    """Start a foreign training job. Tags by their name behind `slotq:`."""
    asked = request(name, slots=instances)
    asked["Tags"] = [{"Key": f"slotq:{key}", "Value": value} for key, value in tags.items()]
    world.client.create_training_job(**asked)
    world.plane.advance()


def test_a_settled_queue_has_no_drift_and_costs_two_calls():
    world = running("job1", "job2")
    wait(world, 5 * MINUTE)
    before = world.plane.calls.total()
    assert reconcile(world) == []
    assert world.plane.calls.total() - before == world.plane.calls["ListTrainingJobs"] == 1


def test_a_missed_end_is_recorded():
    world = running("job1", runtime=90_000)
    wait(world, 90)
    (found,) = reconcile(world)
    assert kinds([found]) == [("ended_unseen", "job1", True)]
    assert found.text == (
        "training job job1 has ended (completed) without an event: its end is recorded"
    )
    assert world.states() == {"job1": "completed"}
    (attempt,) = world.manager.jobs.status("job1").attempts
    assert attempt.ended_at == world.clock.now()


def test_a_missed_start_is_recorded():
    world = QueueWorld(runtime=ALL_DAY)
    world.submit("job1")
    world.manager.passes.run()
    world.plane.knobs.lose_events = 1_000_000
    wait(world, 50)
    assert reconcile(world) == []
    wait(world, 10)
    assert kinds(reconcile(world)) == [("running_unseen", "job1", True)]
    assert world.states() == {"job1": "running"}


def test_a_missed_pending_start_is_given_up_in_time():
    world = QueueWorld(pool("p", pending_timeout=600_000), pool("q"), runtime=ALL_DAY)
    world.plane.knobs.stick_pending = 1
    world.submit("job1")
    world.manager.passes.run()
    world.plane.knobs.lose_events = 1
    wait(world, MINUTE)
    assert reconcile(world) == []
    since = world.job("job1").attempt.pending_since or 0
    assert world.manager.passes.run().wake_at == since + 600_000
    world.later(10 * MINUTE)
    assert world.job("job1").attempt.pool == "q"


def test_a_missed_stop_outside_the_queue_ends_the_job():
    world = running("job1")
    wait(world, MINUTE)
    world.client.stop_training_job(TrainingJobName="job1")
    world.plane.advance()
    assert kinds(reconcile(world)) == [("ended_unseen", "job1", True)]
    assert world.states() == {"job1": "stopped"}


def test_a_deletion_outside_the_queue_ends_the_job():
    world = running("job1", runtime=90_000)
    wait(world, 90)
    world.client.delete_training_job(TrainingJobName="job1")
    assert kinds(reconcile(world)) == [("vanished", "job1", True)]
    job = world.job("job1")
    assert job.state is JobState.STOPPED
    assert job.message == "its training job job1 is no longer in SageMaker"


def test_an_evicted_job_whose_training_job_was_deleted_waits_again():
    world = QueueWorld(runtime=ALL_DAY)
    world.submit("job1", priority=1)
    world.deliver()
    world.plane.knobs.lose_events = 1_000_000
    wait(world, MINUTE)
    world.submit("job2", priority=2)
    world.manager.passes.run()
    world.plane.advance()
    world.client.delete_training_job(TrainingJobName="job1")
    assert kinds(reconcile(world)) == [("vanished", "job1", True)]
    assert world.states() == {"job1": "preempted", "job2": "pending"}


def test_the_tick_frees_the_slots_of_a_missed_end():
    world = QueueWorld(runtime=90_000)
    world.submit("job1")
    world.deliver()
    world.submit("job2")
    world.plane.knobs.lose_events = 1_000_000
    wait(world, 90)
    result = world.manager.tick()
    assert kinds(list(result.findings)) == [("ended_unseen", "job1", True)]
    assert world.states() == {"job2": "starting", "job1": "completed"}


def test_a_create_in_flight_is_neither_dead_nor_an_orphan():
    world = QueueWorld(pool(slots=2), runtime=ALL_DAY)
    world.submit("job1")
    world.submit("job2")
    world.plane.knobs.match = "job1"
    world.plane.knobs.lose_answers = 1
    refuse(world, "create_training_job", "job2")
    world.manager.passes.run()
    assert [world.job(name).attempt.created for name in ("job1", "job2")] == [False, False]
    assert set(world.training_jobs()) == {"job1"}
    for _ in range(3):
        wait(world, 15)
        assert reconcile(world) == []
    assert world.states() == {"job1": "starting", "job2": "starting"}
    assert world.plane.calls["ListTags"] == world.plane.calls["StopTrainingJob"] == 0


def test_an_intent_of_a_dead_handler_is_carried_out():
    world = QueueWorld(runtime=ALL_DAY)
    world.submit("job1")
    world.plane.knobs.lose_answers = 1
    world.manager.passes.run()
    wait(world, HANDLER_LIFETIME / 1000)
    assert kinds(reconcile(world)) == [("stale_intent", "job1", True)]
    assert world.job("job1").attempt.created


def test_a_start_during_the_listing_is_no_orphan(monkeypatch: pytest.MonkeyPatch):
    world = QueueWorld(runtime=ALL_DAY)
    listing = world.client.list_training_jobs

    def meanwhile(**asked):
        monkeypatch.setattr(world.client, "list_training_jobs", listing)
        world.submit("job1")
        world.manager.passes.run()
        return listing(**asked)

    monkeypatch.setattr(world.client, "list_training_jobs", meanwhile)
    described = world.plane.calls["DescribeTrainingJob"]
    assert reconcile(world) == []
    assert world.plane.calls["DescribeTrainingJob"] == described
    assert world.store.health.sightings() == ()


def test_an_orphan_is_stopped_once_at_its_second_sighting():
    world = QueueWorld(runtime=ALL_DAY)
    start_outside(world, "stray", queue="test", token="unknown")
    (first,) = reconcile(world)
    assert kinds([first]) == [("orphan", "stray", False)]
    assert first.text.endswith("stopped when a later reconciliation sees it again")
    wait(world, 59)
    assert kinds(reconcile(world)) == [("orphan", "stray", False)]
    assert world.training_jobs() == {"stray": "InProgress"}
    wait(world, 1)
    assert kinds(reconcile(world)) == [("orphan", "stray", True)]
    assert world.training_jobs() == {"stray": "Stopping"}
    assert reconcile(world) == []
    wait(world, 5 * MINUTE)
    assert reconcile(world) == []
    assert world.plane.calls["StopTrainingJob"] == 1
    assert world.plane.calls["DescribeTrainingJob"] == world.plane.calls["ListTags"] == 1
    assert world.store.health.sightings() == ()


def test_a_stop_of_an_orphan_without_an_answer_is_retried():
    world = QueueWorld(runtime=ALL_DAY)
    start_outside(world, "stray", queue="test")
    reconcile(world)
    wait(world, MINUTE)
    refuse(world, "stop_training_job", "stray")
    (found,) = reconcile(world)
    assert not found.mended
    assert "Rate exceeded" in found.text
    assert kinds(reconcile(world)) == [("orphan", "stray", True)]


def test_a_running_attempt_that_the_queue_has_given_up_is_an_orphan():
    world = running("job1")
    gone = Observation(training_job="job1", phase=Phase.STOPPED, at=world.clock.now())
    world.manager.observe(gone)
    assert kinds(reconcile(world)) == [("orphan", "job1", False)]
    wait(world, MINUTE)
    assert kinds(reconcile(world)) == [("orphan", "job1", True)]
    world.plane.advance()
    assert world.training_jobs() == {"job1": "Stopped"}
    assert world.states() == {"job1": "stopped"}


def test_the_training_job_of_an_unreadable_job_is_left_alone():
    world = running("job1")
    job_of, world.store.jobs.get = world.store.jobs.get, lambda name: None
    active = world.store.worlds.load

    def without(now):
        seen = active(now)
        return replace(seen, snapshot=replace(seen.snapshot, active=()))

    world.store.worlds.load = without
    for _ in range(3):
        wait(world, 5 * MINUTE)
        assert reconcile(world) == []
    world.store.jobs.get = job_of
    assert world.training_jobs() == {"job1": "InProgress"}


def test_training_jobs_of_others_and_of_other_queues_are_never_touched():
    world = QueueWorld(runtime=ALL_DAY)
    start_outside(world, "strangers")
    start_outside(world, "others", queue="another", job="others", token="theirs", attempt="1")
    for _ in range(5):
        assert reconcile(world) == []
        wait(world, 5 * MINUTE)
    assert set(world.training_jobs().values()) == {"InProgress"}
    assert world.plane.calls["StopTrainingJob"] == 0
    assert world.plane.calls["DescribeTrainingJob"] == world.plane.calls["ListTags"] == 2


def test_foreign_training_jobs_count_in_the_first_pool_of_their_type_that_counts_them():
    other = "ml.p5.48xlarge"
    world = QueueWorld(
        pool("closed", slots=4),
        pool("first", slots=4, count_foreign=True),
        pool("second", slots=4, count_foreign=True),
        runtime=ALL_DAY,
    )
    start_outside(world, "a", instances=2)
    start_outside(world, "b", queue="another")
    asked = request("c")
    world.client.create_training_job(
        **asked | {"ResourceConfig": asked["ResourceConfig"] | {"InstanceType": other}}
    )
    (found,) = reconcile(world)
    assert kinds([found]) == [("foreign", "first", True)]
    assert found.text == "training jobs outside the queue use 3 of its slots; the queue counted 0"
    assert foreign(world) == {"closed": 0, "first": 3, "second": 0}
    versions = world.store.worlds.load(world.clock.now()).ledgers
    assert reconcile(world) == []
    assert world.store.worlds.load(world.clock.now()).ledgers == versions
    world.client.stop_training_job(TrainingJobName="a")
    world.plane.advance()
    assert kinds(reconcile(world)) == [("foreign", "first", True)]
    assert foreign(world) == {"closed": 0, "first": 1, "second": 0}
    assert [sighting.training_job for sighting in world.store.health.sightings()] == ["b", "c"]


def test_the_queue_does_not_use_foreign_slots():
    world = QueueWorld(pool(slots=2, count_foreign=True), runtime=ALL_DAY)
    start_outside(world, "theirs")
    world.manager.tick()
    world.submit("job1")
    world.submit("job2")
    world.deliver()
    assert world.states() == {"job1": "running", "job2": "pending"}
    world.client.stop_training_job(TrainingJobName="theirs")
    world.later(RECONCILE_EVERY / 1000)
    world.manager.tick()
    assert world.states() == {"job1": "running", "job2": "starting"}


def test_a_pool_that_stops_counting_foreign_use_has_all_its_slots_again():
    world = QueueWorld(pool(slots=2, count_foreign=True), runtime=ALL_DAY)
    start_outside(world, "theirs")
    reconcile(world)
    world.store.configuration.change([pool(slots=2)], who="test", now=world.clock.now())
    assert kinds(reconcile(world)) == [("foreign", "p", True)]
    assert foreign(world) == {"p": 0}


def test_a_name_once_foreign_can_become_ours():
    world = QueueWorld(pool(slots=2, count_foreign=True), runtime=ALL_DAY)
    start_outside(world, "job1")
    reconcile(world)
    world.client.stop_training_job(TrainingJobName="job1")
    world.plane.advance()
    world.client.delete_training_job(TrainingJobName="job1")
    world.submit("job1")
    world.deliver()
    wait(world, 5 * MINUTE)
    assert kinds(reconcile(world)) == [("foreign", "p", True)]
    assert foreign(world) == {"p": 0}
    assert world.store.health.sightings() == ()
    assert world.states() == {"job1": "running"}


def test_without_repair_everything_is_reported_and_nothing_changes():
    world = running("job1", runtime=90_000)
    world.store.configuration.change([pool(slots=8, count_foreign=True)], who="test", now=0)
    world.runtime = ALL_DAY
    start_outside(world, "stray", queue="test")
    start_outside(world, "theirs")
    wait(world, 90)
    before = world.job("job1")
    for _ in range(2):
        found = reconcile(world, mend=False)
        wait(world, 5 * MINUTE)
    assert kinds(found) == [
        ("ended_unseen", "job1", False),
        ("orphan", "stray", False),
        ("foreign", "p", False),
    ]
    assert world.job("job1") == before
    assert foreign(world) == {"p": 0}
    assert world.plane.calls["StopTrainingJob"] == 0


def test_an_error_with_one_training_job_does_not_stop_the_others():
    world = running("job1", "job2", runtime=90_000)
    wait(world, 90)
    refuse(world, "describe_training_job", "job1")
    found = reconcile(world)
    assert kinds(found) == [("trouble", "job1", False), ("ended_unseen", "job2", True)]
    assert "Rate exceeded" in found[0].text
    assert kinds(reconcile(world)) == [("ended_unseen", "job1", True)]


def test_an_unknown_training_job_that_could_not_be_read_is_read_next_time():
    world = QueueWorld(pool(slots=2, count_foreign=True), runtime=ALL_DAY)
    start_outside(world, "a")
    start_outside(world, "b")
    refuse(world, "list_tags", None)
    assert kinds(reconcile(world)) == [("trouble", "a", False), ("foreign", "p", True)]
    assert foreign(world) == {"p": 1}
    reconcile(world)
    assert foreign(world) == {"p": 2}


def test_reconciliation_ends_in_time_and_continues_next_time():
    world = running("job1", "job2", "job3", runtime=90_000)
    wait(world, 90)
    describe = world.client.describe_training_job

    def slow(**asked):
        world.clock.set(world.clock.now() + 10_000)
        return describe(**asked)

    world.client.describe_training_job = slow
    assert len(reconcile(world, until=world.clock.now() + 15_000)) == 2
    assert len(reconcile(world)) == 1


def reach_only_the_newest(world: QueueWorld, number: int) -> None:
    """A busy account: its newest training jobs are so many that the listing ends before the older
    ones."""
    for n in range(number):
        start_outside(world, f"theirs-{n:03}")
        world.client.stop_training_job(TrainingJobName=f"theirs-{n:03}")
    world.plane.advance()
    listing = world.client.list_training_jobs

    def slow(**asked):
        page = listing(**asked)
        world.clock.set(world.clock.now() + LONGEST_LISTING + 1)
        return page

    world.client.list_training_jobs = slow


def test_a_missed_end_is_recorded_where_the_listing_does_not_reach():
    world = running("job1", "job2", runtime=90_000)
    reach_only_the_newest(world, 150)
    wait(world, 90)
    assert sorted(kinds(reconcile(world))) == [
        ("ended_unseen", "job1", True),
        ("ended_unseen", "job2", True),
    ]
    assert world.plane.calls["ListTrainingJobs"] == 1
    assert world.states() == {"job1": "completed", "job2": "completed"}


def test_a_foreign_training_job_counts_until_it_ends_where_the_listing_does_not_reach():
    world = QueueWorld(pool("p", slots=4, count_foreign=True), runtime=ALL_DAY)
    start_outside(world, "theirs", instances=2)
    reconcile(world)
    reach_only_the_newest(world, 150)
    assert reconcile(world) == []
    assert foreign(world) == {"p": 2}
    world.client.stop_training_job(TrainingJobName="theirs")
    world.plane.advance()
    assert kinds(reconcile(world)) == [("foreign", "p", True)]
    assert foreign(world) == {"p": 0}
    assert world.store.health.sightings() == ()


def test_where_there_is_no_time_for_all_each_has_its_turn_soon():
    world = running(*(f"job{n}" for n in range(8)))
    reach_only_the_newest(world, 150)
    describe = world.client.describe_training_job
    asked: set[str] = set()

    def slow(**request):
        asked.add(request["TrainingJobName"])
        world.clock.set(world.clock.now() + 10_000)
        return describe(**request)

    world.client.describe_training_job = slow
    for _ in range(20):
        wait(world, RECONCILE_EVERY / 1000)
        reconcile(world, until=world.clock.now() + LONGEST_LISTING + 15_000)
    assert {f"job{n}" for n in range(8)} <= asked


def test_a_throttled_listing_changes_nothing_and_backs_off():
    world = QueueWorld(runtime=ALL_DAY)
    reconciler = world.another_reconciler()
    intervals = []
    for _ in range(5):
        world.plane.knobs.throttle = 1
        with pytest.raises(Unavailable, match="ListTrainingJobs"):
            reconciler.run_if_due(world.clock.now())
        intervals.append(time_to_next(world, reconciler))
    assert intervals == [600_000, 1_200_000, LONGEST_INTERVAL, LONGEST_INTERVAL, LONGEST_INTERVAL]
    world.plane.knobs.throttle = 0
    reconciler.run_if_due(world.clock.now())
    assert time_to_next(world, reconciler) == RECONCILE_EVERY


def test_a_throttled_table_does_not_delay_the_listing(monkeypatch: pytest.MonkeyPatch):
    world = QueueWorld(runtime=ALL_DAY)
    reconciler = world.another_reconciler()

    def throttled(_now: int) -> None:
        raise Unavailable("DynamoDB throttles")

    for _ in range(3):
        with monkeypatch.context() as patched:
            patched.setattr(world.store.worlds, "load", throttled)
            with pytest.raises(Unavailable, match="DynamoDB"):
                reconciler.run_if_due(world.clock.now())
        assert time_to_next(world, reconciler) == RECONCILE_EVERY
        world.clock.set(world.clock.now() + RECONCILE_EVERY)


def test_one_of_many_ticks_reconciles():
    world = QueueWorld(runtime=ALL_DAY)
    managers = [world.another_manager() for _ in range(3)]
    for _ in range(10):
        for manager in managers:
            manager.tick()
        wait(world, MINUTE)
    assert world.plane.calls["ListTrainingJobs"] == 2


def test_a_pass_lists_nothing():
    world = running("job1")
    world.later(5 * MINUTE)
    world.manager.passes.run()
    assert world.plane.calls["ListTrainingJobs"] == 0


def test_a_tick_runs_its_pass_despite_other_errors(monkeypatch: pytest.MonkeyPatch):
    world = QueueWorld(runtime=ALL_DAY)
    world.submit("job1")

    def broken(**_: Any):
        raise Unavailable("no answer")

    monkeypatch.setattr(world.store.repair, "expire", broken)
    world.plane.knobs.throttle = 1
    result = world.manager.tick()
    assert result.troubles == (
        "history: no answer",
        "reconciliation: ListTrainingJobs: Rate exceeded",
    )
    assert world.states() == {"job1": "starting"}


def foreign(world: QueueWorld) -> dict[str, int]:
    pools = world.store.worlds.load(world.clock.now()).snapshot.pools
    return {pool.name: pool.foreign.slots for pool in pools}


def refuse(world: QueueWorld, operation: str, name: str | None) -> None:
    """Throttle the next call of that operation (about that training job)."""
    call = getattr(world.client, operation)

    def throttled(**asked):
        if name in {None, asked.get("TrainingJobName")}:
            setattr(world.client, operation, call)
            said = {"Code": "ThrottlingException", "Message": "Rate exceeded"}
            raise ClientError({"Error": said}, operation)
        return call(**asked)

    setattr(world.client, operation, throttled)


def time_to_next(world: QueueWorld, reconciler) -> int:
    """The time until the next listing; the clock then stands there, and the turn is not taken."""
    step, began = 60_000, world.clock.now()
    calls = world.plane.calls["ListTrainingJobs"]
    while True:
        world.clock.set(world.clock.now() + step)
        world.plane.knobs.throttle = 0
        if world.store.scheduler.take_turn(
            "reconcile", now=world.clock.now(), next_at=world.clock.now()
        ):
            assert world.plane.calls["ListTrainingJobs"] == calls
            return world.clock.now() - began
        assert reconciler.run_if_due(world.clock.now()) == []
