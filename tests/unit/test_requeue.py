"""A user stops a running attempt, and the job waits again at its place."""

from __future__ import annotations

import pytest

from slotq_core.errors import InvalidRequest, NoSuchJob, TooLate
from slotq_core.model.attempts import AttemptOutcome, StopCause
from slotq_core.model.jobs import JobState
from slotq_core.operations.amend import Amendment
from slotq_core.wire.views.jobs import attempt_view
from tests.queue_world import QueueWorld, evicting


def give_up(world, name, attempt=1, **more):
    return world.manager.changes.amend(name, Amendment(give_up=attempt, **more), by="ann")


@pytest.fixture
def world():
    world = QueueWorld()
    world.submit("job1", priority=1)
    world.deliver()
    world.later(10)
    return world


def test_a_requeued_job_stops_and_starts_again_at_its_place(world):
    entered = world.job("job1").entry_time
    world.submit("job2", priority=1)
    after = give_up(world, "job1").job
    assert (after.state, after.message) == (JobState.STOPPING, "given up by ann")
    assert after.attempt.stop.sent
    world.deliver()
    assert world.states() == {"job1": "running", "job2": "pending"}
    job = world.job("job1")
    assert (job.attempts, job.evictions, job.retries, job.entry_time) == (2, 1, 0, entered)
    _, (first, _) = world.store.jobs.with_attempts("job1")
    assert (first.outcome, first.stop.cause) == (AttemptOutcome.EVICTED, StopCause.REQUEUED)
    assert attempt_view(first).stop_cause == "requeued"


def test_a_job_that_is_ahead_meanwhile_goes_first(world):
    world.submit("job2", priority=1)
    world.later(10)
    job = world.job("job1")
    world.manager.changes.amend("job1", Amendment(give_up=job.attempts), by="ann")
    world.submit("job3", priority=2)
    world.deliver()
    assert world.states() == {"job1": "preempted", "job2": "pending", "job3": "running"}


def test_a_starting_job_gives_up_its_start():
    world = QueueWorld()
    world.submit("job1")
    world.manager.passes.run()
    assert world.job("job1").state is JobState.STARTING
    assert give_up(world, "job1").job.state is JobState.STOPPING
    world.deliver()
    assert world.training_jobs()["job1"] == "Stopped"
    assert (world.states(), world.job("job1").attempts) == ({"job1": "running"}, 2)


def test_a_repeated_requeue_stops_no_later_attempt(world):
    give_up(world, "job1")
    before = world.job("job1")
    assert give_up(world, "job1").job == before
    world.deliver()
    before = world.job("job1")
    assert (before.state, before.attempts) == (JobState.RUNNING, 2)
    assert give_up(world, "job1").job == before
    assert give_up(world, "job1", attempt=2).job.state is JobState.STOPPING


def test_a_requeue_of_a_waiting_job_changes_nothing(world):
    world.submit("job2", priority=1)
    before = world.job("job2")
    assert give_up(world, "job2", attempt=0).job == before
    world.manager.changes.amend("job2", Amendment(held=True), by="ann")
    assert give_up(world, "job2", attempt=0).job.state is JobState.HELD


def test_a_requeue_of_a_job_being_evicted_changes_nothing():
    world = evicting()
    before = world.job("job1")
    assert give_up(world, "job1").job == before
    assert before.attempt.stop.by == "job2"


def test_a_requeue_is_too_late_for_a_cancelled_or_ended_job(world):
    world.manager.changes.cancel("job1", by="eve")
    with pytest.raises(TooLate, match="is being cancelled, by eve"):
        give_up(world, "job1")
    world.deliver()
    with pytest.raises(TooLate, match="has already ended: it is cancelled"):
        give_up(world, "job1")
    with pytest.raises(NoSuchJob):
        give_up(world, "job9")


def test_a_requeue_of_an_unknown_attempt_is_refused(world):
    before = world.job("job1")
    with pytest.raises(InvalidRequest, match="begun 1 attempts; there is no attempt 2"):
        give_up(world, "job1", attempt=2)
    assert world.job("job1") == before


def test_a_job_that_completes_before_the_stop_is_completed(world):
    """Work continues while a job is stopping and may complete; the job is then completed."""
    commit = world.store.decisions.commit

    def completed_first(*args, **kwargs):
        world.store.decisions.commit = commit
        world.later(200)
        return commit(*args, **kwargs)

    world.store.decisions.commit = completed_first
    with pytest.raises(TooLate, match="has already ended: it is completed"):
        give_up(world, "job1")
    assert world.states() == {"job1": "completed"}


def test_a_requeue_that_races_with_an_eviction_has_one_effect(world):
    commit = world.store.decisions.commit

    def evicted_first(*args, **kwargs):
        world.store.decisions.commit = commit
        world.submit("job2", priority=5)
        world.manager.passes.run()
        return commit(*args, **kwargs)

    world.store.decisions.commit = evicted_first
    assert give_up(world, "job1").job.attempt.stop.cause is StopCause.EVICTED
    world.deliver()
    assert world.states() == {"job1": "preempted", "job2": "running"}
    assert world.job("job1").evictions == 1


def test_a_non_preemptible_job_can_be_requeued():
    world = QueueWorld()
    world.submit("job1", preemptible="false")
    world.deliver()
    assert give_up(world, "job1").job.state is JobState.STOPPING


def test_a_request_cannot_requeue_and_hold(world):
    before = world.job("job1")
    with pytest.raises(TooLate, match="stopping; only a waiting job can be held"):
        give_up(world, "job1", held=True)
    assert world.job("job1") == before
