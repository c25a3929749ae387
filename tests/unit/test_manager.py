"""The manager over the real adapter and our own training plane: verbs, crashes, refusals, races."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slotq.local.virtual import VirtualClock
from slotq_core.effects import HANDLER_LIFETIME
from slotq_core.errors import Conflict, NameTaken, NoSuchJob, TooLate
from slotq_core.model import AttemptOutcome, JobState
from slotq_core.names import training_job_name
from slotq_core.ports import Observation, Phase
from tests.queue_world import QueueWorld, pool, request

LIFETIME = HANDLER_LIFETIME / 1000


def evicting() -> QueueWorld:
    """job1 runs and has just been asked to stop for job2."""
    world = QueueWorld()
    world.submit("job1", priority=1)
    world.deliver()
    world.submit("job2", priority=2)
    world.manager.run_pass()
    return world


def test_a_job_goes_in_and_comes_out():
    world = QueueWorld()
    status = world.submit("job1")
    assert (status.job.state, status.place) == (JobState.PENDING, 1)
    assert status.reason.code == "next_pass"
    assert world.woken == 1
    world.deliver()
    assert world.states() == {"job1": "running"}
    world.later(100)
    (attempt,) = world.manager.status("job1").attempts
    assert world.states() == {"job1": "completed"}
    assert (attempt.training_job, attempt.outcome) == ("job1", AttemptOutcome.COMPLETED)
    assert attempt.artifact.startswith("s3://bucket/out/job1/")


def test_an_evicted_job_goes_on_under_a_stamped_name():
    world = evicting()
    world.later(0)
    assert world.states() == {"job1": "preempted", "job2": "running"}
    world.later(100)
    assert world.states() == {"job1": "running", "job2": "completed"}
    assert set(world.training_jobs()) == {"job1", "job2", training_job_name("job1", 2)}
    first, second = world.manager.status("job1").attempts
    assert (first.outcome, first.stop.by) == (AttemptOutcome.EVICTED, "job2")
    assert second.training_job == training_job_name("job1", 2)


def test_the_same_submission_again_is_the_same_job():
    world = QueueWorld()
    first = world.submit("job1")
    assert world.submit("job1") == first
    world.deliver()
    assert world.submit("job1").job.state is JobState.RUNNING
    assert len(world.training_jobs()) == 1


def test_a_name_belongs_to_one_submission():
    world = QueueWorld()
    world.submit("job1")
    with pytest.raises(NameTaken, match="another submission named 'job1' is pending"):
        world.submit("job1", priority=3)
    world.deliver()
    world.later(100)
    with pytest.raises(NameTaken, match=r"has ended \(completed\)"):
        world.submit("job1")


def test_a_training_job_of_somebody_else_has_the_name():
    world = QueueWorld()
    world.client.create_training_job(**request("job1"))
    with pytest.raises(NameTaken, match="not this queue's"):
        world.submit("job1")
    assert world.states() == {}


def test_a_training_job_of_somebody_else_that_comes_in_between_fails_the_job():
    world = QueueWorld()
    world.submit("job1")
    world.client.create_training_job(**request("job1"))
    world.manager.run_pass()
    job = world.job("job1")
    assert job.state is JobState.FAILED
    assert "is taken in SageMaker" in job.message


def test_a_create_that_took_effect_without_an_answer_is_finished_by_the_next_handler():
    world = QueueWorld()
    world.submit("job1")
    world.plane.knobs.lose_answers = 3
    world.manager.run_pass()
    assert world.job("job1").state is JobState.STARTING
    assert not world.job("job1").attempt.created
    world.plane.knobs.lose_answers = 0
    world.events.clear()
    world.clock.set(world.clock.now() + HANDLER_LIFETIME)
    world.manager.run_pass()
    assert world.job("job1").attempt.created
    assert list(world.training_jobs()) == ["job1"]


def test_a_stop_that_was_never_sent_is_sent_by_the_next_handler():
    world = QueueWorld()
    world.submit("job1", priority=1)
    world.deliver()
    world.submit("job2", priority=2)
    world.plane.knobs.throttle = 1
    world.manager.run_pass()
    assert world.training_jobs() == {"job1": "InProgress"}
    world.later(1)
    assert world.job("job1").state is JobState.STOPPING
    world.later(LIFETIME)
    assert world.states() == {"job1": "preempted", "job2": "running"}


def test_an_end_that_nobody_told_is_seen_when_the_stop_is_repeated():
    world = evicting()
    world.plane.knobs.lose_events = 100
    world.plane.advance()
    world.events.clear()
    job = world.job("job1")
    lost = replace(job.attempt, stop=replace(job.attempt.stop, sent=False))
    world.store.commit([_change(job, replace(job, attempt=lost))])
    world.clock.set(world.clock.now() + HANDLER_LIFETIME)
    world.manager.run_pass()
    assert world.job("job1").state is JobState.PREEMPTED


def test_no_capacity_backs_off_and_tries_again_at_the_old_place():
    world = QueueWorld()
    world.submit("job1")
    world.plane.knobs.refuse_creates = 1
    world.deliver()
    job = world.job("job1")
    assert (job.state, job.not_before) == (JobState.BACKOFF, world.clock.now() + 30_000)
    assert "account-level service limit" in job.message
    assert world.manager.status("job1").reason.code == "backing_off"
    result = world.manager.run_pass()
    assert result.wake_at == job.not_before
    world.later(30)
    assert world.states() == {"job1": "running"}
    assert world.job("job1").capacity_errors == 0
    assert world.job("job1").entry_time == job.entry_time
    names = [attempt.training_job for attempt in world.manager.status("job1").attempts]
    assert names == ["job1", training_job_name("job1", 2)]


def test_a_capacity_error_that_comes_late_does_the_same():
    world = QueueWorld()
    world.submit("job1")
    world.plane.knobs.fail_provisioning = 1
    world.deliver()
    assert world.states() == {"job1": "backoff"}
    world.later(30)
    assert world.states() == {"job1": "running"}


def test_a_request_that_sagemaker_rejects_fails_the_job_with_its_message():
    world = QueueWorld()
    world.submit("job1")
    world.plane.knobs.refuse_region = 1
    world.deliver()
    assert world.job("job1").state is JobState.FAILED
    assert "not available in this region" in world.job("job1").message


def test_cancelled_while_it_waits():
    world = evicting()
    world.manager.cancel("job2", by="ann")
    world.deliver()
    assert world.states() == {"job2": "cancelled", "job1": "running"}


def test_cancelled_while_it_runs():
    world = QueueWorld()
    world.submit("job1")
    world.deliver()
    assert world.manager.cancel("job1", by="ann").job.state is JobState.STOPPING
    world.deliver()
    assert world.states() == {"job1": "cancelled"}
    assert world.training_jobs() == {"job1": "Stopped"}


def test_a_cancel_wins_over_an_eviction():
    world = evicting()
    world.manager.cancel("job1", by="ann")
    world.deliver()
    assert world.states() == {"job2": "running", "job1": "cancelled"}


def test_a_cancel_wins_over_a_create_in_flight():
    world = QueueWorld()
    world.submit("job1")
    cancel_during(world, "create_training_job", "job1")
    world.manager.run_pass()
    assert world.job("job1").state is JobState.STOPPING
    world.deliver()
    assert world.states() == {"job1": "cancelled"}
    assert world.training_jobs() == {"job1": "Stopped"}


def test_a_cancel_of_a_start_whose_handler_died_before_the_call_ends_it():
    world = QueueWorld()
    world.submit("job1")
    world.plane.knobs.throttle = 1
    world.manager.run_pass()
    world.manager.cancel("job1", by="ann")
    world.deliver()
    assert world.job("job1").state is JobState.STOPPING
    world.later(LIFETIME)
    assert world.states() == {"job1": "cancelled"}
    assert world.training_jobs() == {}


def test_cancelling_again_changes_nothing_and_too_late_is_said():
    world = QueueWorld()
    world.submit("job1")
    world.manager.cancel("job1", by="ann")
    assert world.manager.cancel("job1", by="bob").job.message == "cancelled by ann"
    world.submit("job2")
    world.deliver()
    world.later(100)
    with pytest.raises(TooLate, match="job2 has ended already: it is completed"):
        world.manager.cancel("job2", by="ann")
    with pytest.raises(NoSuchJob, match="no job 'job3'"):
        world.manager.cancel("job3", by="ann")


def test_repeated_late_and_foreign_events_change_nothing():
    world = evicting()
    world.later(0)
    before = world.job("job1"), world.job("job2")
    for phase in Phase:
        for name in ("job1", "nobody"):
            world.manager.observe(Observation(training_job=name, phase=phase, at=0))
    assert (world.job("job1"), world.job("job2")) == before


def test_stopped_outside_the_queue_is_its_end():
    world = QueueWorld()
    world.submit("job1")
    world.deliver()
    world.client.stop_training_job(TrainingJobName="job1")
    world.deliver()
    assert world.states() == {"job1": "stopped"}


def test_a_conflict_means_load_and_plan_again():
    world = QueueWorld(pool(slots=2))
    world.submit("job1")
    world.submit("job2")
    commit = world.store.commit
    refusals = iter([Conflict("someone was faster")] * 3)

    def contended(changes, *, seen=None):
        for refusal in refusals:
            raise refusal
        return commit(changes, seen=seen)

    world.store.commit = contended
    world.deliver()
    assert world.states() == {"job1": "running", "job2": "running"}


def test_a_pass_that_uses_up_its_budget_asks_for_another():
    world = QueueWorld(pool(slots=5))
    for n in range(5):
        world.submit(f"job{n}")
    woken = world.woken
    slow_calls(world.clock, world)
    result = world.manager.run_pass()
    assert 0 < len(result.decisions) < 5
    assert world.woken == woken + 1
    world.manager.run_pass()
    assert len(world.training_jobs()) == 5


def test_a_large_eviction_takes_several_transactions():
    world = QueueWorld(pool(slots=50))
    for n in range(50):
        world.submit(f"small{n:02d}")
    world.deliver()
    world.submit("big", priority=1, slots=50)
    world.deliver()
    assert world.job("big").state is JobState.RUNNING
    assert {s for name, s in world.states().items() if name != "big"} == {"preempted"}


def test_the_list_is_in_the_order_of_the_queue():
    world = evicting()
    world.submit("job3", priority=9, slots=1)
    world.submit("job4", priority=1)
    world.manager.run_pass()
    listed = [(s.job.name, s.job.state.value, s.place) for s in world.manager.statuses()]
    assert listed == [
        ("job1", "stopping", None),
        ("job3", "pending", 1),
        ("job2", "pending", 2),
        ("job4", "pending", 3),
    ]
    assert world.manager.status("job4").reason.code == "no_free_slots"
    world.submit("job5", priority=1)
    assert world.manager.status("job5").reason.sentence() == "3 jobs are ahead of it"


def _change(before, after):
    from slotq_core.ports import Change

    return Change(before=before, after=after)


def cancel_during(world: QueueWorld, operation: str, name: str) -> None:
    """The user cancels at the very moment the call is on its way."""
    call = getattr(world.client, operation)

    def raced(**asked):
        world.another_manager().cancel(name, by="ann")
        return call(**asked)

    setattr(world.client, operation, raced)


def slow_calls(clock: VirtualClock, world: QueueWorld) -> None:
    """Every create takes ten seconds."""
    call = world.client.create_training_job

    def slow(**asked):
        clock.set(clock.now() + 10_000)
        return call(**asked)

    world.client.create_training_job = slow
