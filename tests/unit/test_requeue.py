"""A user gives a running attempt up: the job goes back into the line, at its place."""

from __future__ import annotations

import pytest

from slotq_core.errors import InvalidRequest, NoSuchJob, TooLate
from slotq_core.model.attempts import AttemptOutcome, StopCause
from slotq_core.model.jobs import JobState
from slotq_core.operations.amend import Amendment
from slotq_core.wire.views import attempt_view
from tests.queue_world import QueueWorld, evicting


def give_up(world, name, attempt=1, **more):
    return world.manager.amend(name, Amendment(give_up=attempt, **more), by="ann")


@pytest.fixture
def world():
    world = QueueWorld()
    world.submit("job1", priority=1)
    world.deliver()
    world.later(10)
    return world


def test_the_attempt_is_stopped_and_the_job_starts_again_at_its_place(world):
    entered = world.job("job1").entry_time
    world.submit("job2", priority=1)
    after = give_up(world, "job1").job
    assert (after.state, after.message) == (JobState.STOPPING, "given up by ann")
    assert after.attempt.stop.sent
    world.deliver()
    assert world.states() == {"job1": "running", "job2": "pending"}
    job = world.job("job1")
    assert (job.attempts, job.evictions, job.retries, job.entry_time) == (2, 1, 0, entered)
    first, _ = world.store.attempts("job1")
    assert (first.outcome, first.stop.cause) == (AttemptOutcome.EVICTED, StopCause.REQUEUED)
    assert attempt_view(first).stop_cause == "requeued"


def test_who_is_ahead_by_then_goes_first(world):
    world.submit("job2", priority=1)
    world.later(10)
    job = world.job("job1")
    world.manager.amend("job1", Amendment(give_up=job.attempts), by="ann")
    world.submit("job3", priority=2)
    world.deliver()
    assert world.states() == {"job1": "preempted", "job2": "pending", "job3": "running"}


def test_a_job_that_is_still_starting_gives_its_start_up():
    world = QueueWorld()
    world.submit("job1")
    world.manager.run_pass()
    assert world.job("job1").state is JobState.STARTING
    assert give_up(world, "job1").job.state is JobState.STOPPING
    world.deliver()
    assert world.training_jobs()["job1"] == "Stopped"
    assert (world.states(), world.job("job1").attempts) == ({"job1": "running"}, 2)


def test_the_same_wish_again_gives_up_no_other_attempt(world):
    give_up(world, "job1")
    before = world.job("job1")
    assert give_up(world, "job1").job == before
    world.deliver()
    before = world.job("job1")
    assert (before.state, before.attempts) == (JobState.RUNNING, 2)
    assert give_up(world, "job1").job == before
    assert give_up(world, "job1", attempt=2).job.state is JobState.STOPPING


def test_a_job_that_waits_has_nothing_to_give_up(world):
    world.submit("job2", priority=1)
    before = world.job("job2")
    assert give_up(world, "job2", attempt=0).job == before
    world.manager.amend("job2", Amendment(held=True), by="ann")
    assert give_up(world, "job2", attempt=0).job.state is JobState.HELD


def test_one_that_is_being_evicted_goes_back_into_the_line_anyway():
    world = evicting()
    before = world.job("job1")
    assert give_up(world, "job1").job == before
    assert before.attempt.stop.by == "job2"


def test_it_comes_too_late_for_what_is_cancelled_or_has_ended(world):
    world.manager.cancel("job1", by="eve")
    with pytest.raises(TooLate, match="is being cancelled, by eve"):
        give_up(world, "job1")
    world.deliver()
    with pytest.raises(TooLate, match="has already ended: it is cancelled"):
        give_up(world, "job1")
    with pytest.raises(NoSuchJob):
        give_up(world, "job9")


def test_an_attempt_that_there_never_was(world):
    before = world.job("job1")
    with pytest.raises(InvalidRequest, match="begun 1 attempts; there is no attempt 2"):
        give_up(world, "job1", attempt=2)
    assert world.job("job1") == before


def test_what_completes_before_the_stop_has_completed(world):
    """Work goes on while a job is stopping, and may complete: then it is completed."""
    commit = world.store.commit

    def completed_first(*args, **kwargs):
        world.store.commit = commit
        world.later(200)
        return commit(*args, **kwargs)

    world.store.commit = completed_first
    with pytest.raises(TooLate, match="has already ended: it is completed"):
        give_up(world, "job1")
    assert world.states() == {"job1": "completed"}


def test_it_meets_an_eviction_and_one_of_them_is_enough(world):
    commit = world.store.commit

    def evicted_first(*args, **kwargs):
        world.store.commit = commit
        world.submit("job2", priority=5)
        world.manager.run_pass()
        return commit(*args, **kwargs)

    world.store.commit = evicted_first
    assert give_up(world, "job1").job.attempt.stop.cause is StopCause.EVICTED
    world.deliver()
    assert world.states() == {"job1": "preempted", "job2": "running"}
    assert world.job("job1").evictions == 1


def test_a_job_that_is_not_preemptible_may_give_its_own_attempt_up():
    world = QueueWorld()
    world.submit("job1", preemptible="false")
    world.deliver()
    assert give_up(world, "job1").job.state is JobState.STOPPING


def test_a_job_cannot_be_held_in_the_same_breath(world):
    before = world.job("job1")
    with pytest.raises(TooLate, match="stopping; only a waiting job can be held"):
        give_up(world, "job1", held=True)
    assert world.job("job1") == before
