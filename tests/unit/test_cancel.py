"""A user's cancel wins over a start, a resume and an eviction in flight, and over late events."""

from __future__ import annotations

import pytest

from slotq_core.adapters.sagemaker.observations import observation_of
from slotq_core.errors import NoSuchJob, TooLate
from slotq_core.model.attempts import AttemptOutcome, StopCause
from slotq_core.model.jobs import JobState
from slotq_core.names import training_job_name
from slotq_core.operations.effects import HANDLER_LIFETIME
from tests.queue_world import QueueWorld, evicting, request

LIFETIME = HANDLER_LIFETIME / 1000


def test_a_waiting_job_can_be_cancelled():
    world = evicting()
    world.manager.changes.cancel("job2", by="ann")
    world.deliver()
    assert world.states() == {"job2": "cancelled", "job1": "running"}


def test_a_running_job_can_be_cancelled():
    world = QueueWorld()
    world.submit("job1")
    world.deliver()
    assert world.manager.changes.cancel("job1", by="ann").job.state is JobState.STOPPING
    world.deliver()
    assert world.states() == {"job1": "cancelled"}
    assert world.training_jobs() == {"job1": "Stopped"}


def test_a_cancel_wins_over_an_eviction():
    world = evicting()
    world.manager.changes.cancel("job1", by="ann")
    world.deliver()
    assert world.states() == {"job2": "running", "job1": "cancelled"}


def test_a_cancel_wins_over_a_create_in_flight():
    world = QueueWorld()
    world.submit("job1")
    cancel_during(world, "create_training_job", "job1")
    world.manager.passes.run()
    assert world.job("job1").state is JobState.STOPPING
    world.deliver()
    assert world.states() == {"job1": "cancelled"}
    assert world.training_jobs() == {"job1": "Stopped"}


def test_a_cancel_wins_over_a_resume_in_flight():
    world = evicting()
    world.later(0)
    world.manager.changes.cancel("job2", by="bob")
    world.plane.advance()
    events, world.events[:] = list(world.events), []
    for event in events:
        world.manager.observe(observation_of(event["detail"], at=world.clock.now()))
    cancel_during(world, "create_training_job", "job1")
    world.manager.passes.run()
    assert (world.job("job1").state, world.job("job1").attempts) == (JobState.STOPPING, 2)
    world.deliver()
    assert world.states() == {"job1": "cancelled", "job2": "cancelled"}
    assert world.training_jobs()[training_job_name("job1", 2)] == "Stopped"
    world.later(LIFETIME)
    assert len(world.training_jobs()) == 3


def test_a_cancel_wins_over_an_eviction_in_flight():
    world = QueueWorld()
    world.submit("job1", priority=1)
    world.deliver()
    world.submit("job2", priority=2)
    cancel_during(world, "stop_training_job", "job1")
    world.manager.passes.run()
    job = world.job("job1")
    assert (job.state, job.attempt.stop.cause) == (JobState.STOPPING, StopCause.CANCELLED)
    world.deliver()
    assert world.states() == {"job2": "running", "job1": "cancelled"}
    (attempt,) = world.manager.jobs.status("job1").attempts
    assert attempt.outcome is AttemptOutcome.CANCELLED


def test_a_beneficiary_can_be_cancelled_while_its_eviction_is_in_flight():
    world = QueueWorld()
    world.submit("job1", priority=1)
    world.deliver()
    world.submit("job2", priority=2)
    cancel_during(world, "stop_training_job", "job2")
    world.manager.passes.run()
    world.deliver()
    assert world.states() == {"job1": "running", "job2": "cancelled"}
    assert world.job("job1").evictions == 1


def test_a_cancel_ends_a_start_whose_handler_died_before_the_call():
    world = QueueWorld()
    world.submit("job1")
    world.plane.knobs.throttle = 1
    world.manager.passes.run()
    world.manager.changes.cancel("job1", by="ann")
    world.deliver()
    assert world.job("job1").state is JobState.STOPPING
    world.later(LIFETIME)
    assert world.states() == {"job1": "cancelled"}
    assert world.training_jobs() == {}


def test_a_cancelled_start_never_stops_a_foreign_training_job():
    world = QueueWorld()
    world.submit("job1")
    world.plane.knobs.throttle = 1
    world.manager.passes.run()
    world.client.create_training_job(**request("job1"))
    world.manager.changes.cancel("job1", by="ann")
    world.later(LIFETIME)
    assert world.states() == {"job1": "cancelled"}
    assert world.training_jobs() == {"job1": "InProgress"}
    assert world.plane.calls["StopTrainingJob"] == 0


def test_a_cancelled_start_with_a_lost_answer_is_stopped():
    world = QueueWorld()
    world.submit("job1")
    world.plane.knobs.lose_answers = 1
    world.manager.passes.run()
    world.manager.changes.cancel("job1", by="ann")
    world.events.clear()
    world.later(LIFETIME)
    world.deliver()
    assert world.states() == {"job1": "cancelled"}
    assert world.training_jobs() == {"job1": "Stopped"}


def test_a_second_cancel_changes_nothing_and_after_the_end_it_is_too_late():
    world = QueueWorld()
    world.submit("job1")
    world.manager.changes.cancel("job1", by="ann")
    assert world.manager.changes.cancel("job1", by="bob").job.message == "cancelled by ann"
    world.submit("job2")
    world.deliver()
    world.later(100)
    with pytest.raises(TooLate, match="job2 has already ended: it is completed"):
        world.manager.changes.cancel("job2", by="ann")
    with pytest.raises(NoSuchJob, match="no job 'job3'"):
        world.manager.changes.cancel("job3", by="ann")


def cancel_during(world: QueueWorld, operation: str, name: str) -> None:
    """Cancel the job while the call is in flight."""
    call = getattr(world.client, operation)

    def raced(**asked):
        setattr(world.client, operation, call)
        world.another_manager().changes.cancel(name, by="ann")
        return call(**asked)

    setattr(world.client, operation, raced)
