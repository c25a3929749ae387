"""A script is asked to release its slots before its job is stopped, and what a release means."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slotq.local.training.runner import WorkEnd
from slotq.local.training.virtual_runner import EXIT_RELEASED, Work
from slotq_core.adapters.sagemaker.sagemaker_errors import RELEASED
from slotq_core.model.attempts import AttemptOutcome
from slotq_core.model.jobs import JobState
from slotq_core.operations.amend import Amendment, ChangeRequest, Revision
from slotq_core.operations.effects import HANDLER_LIFETIME
from slotq_core.policy.lifecycle.suspend import MOST_RELEASES, RELEASED_TOO_OFTEN
from slotq_core.ports.stored import Change
from slotq_core.wire.submission import parse_submission
from tests.queue_world import START, QueueWorld, pool

S = JobState
GRACE = 30_000
PLACE = "s3://bucket/low"
LONG = Work(runtime=900_000, stop=5_000)


def asked(*, release: int | None = 10_000, grace: int = GRACE, place: str = PLACE) -> QueueWorld:
    """A low job, evicted ten seconds after its start by a high one."""
    work = {"low": replace(LONG, release=release)}
    world = QueueWorld(pool(suspend_grace=grace), work=work, runtime=20_000)
    world.submit("low", checkpoints=place)
    world.deliver()
    world.later(10)
    world.submit("high", priority=1)
    world.deliver()
    return world


def stop_calls(world: QueueWorld) -> int:
    return world.plane.calls["StopTrainingJob"]


def first_attempt(world: QueueWorld, name: str = "low"):
    found = world.store.jobs.with_attempts(name)
    assert found is not None
    return found[1][0]


def test_a_victim_is_asked_and_not_stopped():
    world = asked()
    job = world.job("low")
    assert (job.state, job.attempt.stop.grace_until) == (S.STOPPING, START + 10_000 + GRACE)
    assert (world.scripts.asked, stop_calls(world)) == (["low"], 0)
    assert world.wakes_at == [START + 10_000 + GRACE]


def test_it_waits_again_at_its_place_once_it_has_released():
    world = asked()
    entered = world.job("low").entry_time
    world.later(9)
    assert world.states() == {"low": "stopping", "high": "pending"}
    world.later(1)
    assert world.states() == {"low": "preempted", "high": "running"}
    job, ended = world.job("low"), first_attempt(world)
    assert (job.entry_time, job.evictions, job.retries, job.releases) == (entered, 1, 0, ())
    assert ended.outcome is AttemptOutcome.EVICTED
    assert ended.checkpoint_at == ended.ended_at, "it has saved its work"
    assert ended.message == "its script released the slots", "no error, as SageMaker has it"
    assert stop_calls(world) == 0


def test_it_is_stopped_when_its_grace_is_over():
    world = asked(release=None)
    world.later(29)
    assert stop_calls(world) == 0
    world.later(1)
    assert (stop_calls(world), world.job("low").attempt.stop.sent) == (1, True)
    world.later(5)
    assert world.states() == {"low": "preempted", "high": "running"}


@pytest.mark.parametrize("setting", [{"place": ""}, {"grace": 0}])
def test_without_a_place_or_a_grace_it_is_stopped_at_once(setting):
    assert stop_calls(asked(**setting)) == 1


def test_a_script_that_cannot_be_asked_is_stopped_at_once():
    world = QueueWorld(pool(suspend_grace=GRACE), work={"low": LONG})
    world.scripts.out_of_reach = True
    world.submit("low", checkpoints=PLACE)
    world.deliver()
    world.submit("high", priority=1)
    world.deliver()
    assert (stop_calls(world), world.wakes_at) == (1, [])


def test_the_place_is_read_from_the_request_of_a_job_that_an_earlier_version_started():
    world = QueueWorld(pool(suspend_grace=GRACE), work={"low": LONG})
    world.submit("low", checkpoints=PLACE)
    world.deliver()
    job = world.job("low")
    assert job.attempt.checkpoints == PLACE, "kept while it runs"
    bare = replace(job, attempt=replace(job.attempt, checkpoints=""))
    world.store.decisions.commit([Change(before=job, after=bare)])
    world.submit("high", priority=1)
    world.deliver()
    assert (world.scripts.asked, stop_calls(world)) == (["low"], 0)


def test_a_cancel_ends_the_grace():
    world = asked(release=None)
    world.later(5)
    world.manager.changes.cancel("low", by="ann")
    assert stop_calls(world) == 1
    world.later(5)
    assert world.states()["low"] == "cancelled"


def test_a_requeue_is_not_delayed():
    world = QueueWorld(pool(suspend_grace=GRACE), work={"low": LONG})
    world.submit("low", checkpoints=PLACE)
    world.deliver()
    world.manager.changes.amend("low", Amendment(give_up=1), by="ann")
    assert (stop_calls(world), world.scripts.asked) == (1, [])


@pytest.mark.parametrize("together", [False, True])
def test_a_change_of_the_job_in_its_grace_does_not_end_it(together):
    """The function for requests cannot write the marker, and leaves the order alone."""
    world = asked(release=None)
    world.manager = world.another_manager()
    world.scripts.out_of_reach = True
    hurried = Amendment(give_up=1, revise=with_retries)
    if together:
        world.manager.bulk.run([ChangeRequest(name="low", amendment=hurried)], by="ann")
    else:
        world.manager.changes.amend("low", hurried, by="ann")
    assert (world.job("low").retries, stop_calls(world)) == (3, 0)


def with_retries(request):
    submission, _ = parse_submission(request)
    tags = [*request["Tags"], {"Key": "slotq:retries", "Value": "3"}]
    revised, body = parse_submission({**request, "Tags": tags})
    return Revision(request=body, before=submission, after=revised)


def test_completed_wins_in_the_grace():
    world = QueueWorld(
        pool(suspend_grace=GRACE), work={"low": Work(runtime=20_000, release=10_000)}
    )
    world.submit("low", checkpoints=PLACE)
    world.deliver()
    world.later(10)
    world.submit("high", priority=1)
    world.deliver()
    world.later(10)  # Its work and its release end at the same moment.
    assert world.states() == {"low": "completed", "high": "running"}


def test_another_process_ends_the_grace():
    """Nothing but the order is needed to go on."""
    world = asked(release=None)
    world.manager = world.another_manager()
    world.later(29)
    assert (stop_calls(world), world.scripts.asked) == (0, ["low"])
    world.manager = world.another_manager()
    world.later(1)
    assert stop_calls(world) == 1


def test_another_process_asks_for_a_handler_that_may_be_dead():
    world = asked(release=None, grace=300_000)
    world.manager = world.another_manager()
    world.later(HANDLER_LIFETIME / 1000)
    assert (world.scripts.asked, stop_calls(world)) == (["low", "low"], 0)
    world.later(1)
    assert world.scripts.asked == ["low", "low"], "once by each process"


def test_a_grace_is_no_drift():
    world = asked(release=None, grace=800_000)
    world.later(700)
    assert world.another_reconciler().reconcile() == []


def test_one_wake_serves_all_graces_that_end_at_once():
    world = QueueWorld(pool(slots=3, suspend_grace=5_000), runtime=900_000)
    for name in ("a", "b", "c"):
        world.submit(name, checkpoints=f"s3://bucket/{name}")
    world.deliver()
    world.submit("big", priority=1, slots=3)
    world.deliver()
    assert sorted(world.scripts.asked) == ["a", "b", "c"]
    assert world.wakes_at == [START + 5_000]


def test_a_release_while_it_is_being_stopped_is_an_eviction():
    world = asked(release=33_000)
    world.later(30)
    assert stop_calls(world) == 1
    world.later(3)
    assert world.states() == {"low": "preempted", "high": "running"}


def test_a_stop_after_the_release_is_no_error():
    """The release's event is not delivered yet when the grace is over."""
    world = asked(release=29_500)
    world.clock.set(START + 10_000 + GRACE)
    world.plane.advance()
    late, world.events[:] = list(world.events), []
    result = world.manager.passes.run()
    assert (stop_calls(world), result.troubles) == (1, ())
    assert world.states() == {"low": "preempted", "high": "starting"}
    world.events += late
    world.deliver()
    assert world.states() == {"low": "preempted", "high": "running"}


def released_after(seconds: float, runtime: float = 1_000) -> Work:
    """A script that releases its slots by itself, so long after each start."""
    failure = WorkEnd(code=EXIT_RELEASED, failure=RELEASED)
    return Work(runtime=round(runtime * 1000), fails_after=round(seconds * 1000), failure=failure)


def test_a_script_may_release_by_itself():
    world = QueueWorld(work={"a": released_after(10, 25)})
    world.submit("a", retries="0", checkpoints=PLACE)
    world.submit("b")
    world.deliver()
    world.later(10)
    assert world.states() == {"a": "running", "b": "pending"}, "it is the first again"
    assert (world.job("a").attempts, world.job("a").evictions) == (2, 0)
    assert first_attempt(world, "a").outcome is AttemptOutcome.RELEASED
    world.later(10)
    world.later(5)
    assert world.states()["a"] == "completed"


def test_too_many_releases_hold_the_job():
    world = QueueWorld(work={"a": released_after(10)})
    world.submit("a")
    world.deliver()
    for _ in range(MOST_RELEASES):
        world.later(10)
        assert world.states() == {"a": "running"}
    world.later(10)
    job = world.job("a")
    assert (job.state, job.cause, job.releases) == (S.HELD, RELEASED_TOO_OFTEN, ())
    assert "slotq release a" in job.message
    world.manager.changes.amend("a", Amendment(held=False), by="ann")
    world.deliver()
    assert world.states() == {"a": "running"}


def test_releases_of_more_than_an_hour_ago_do_not_count():
    world = QueueWorld(work={"a": released_after(1_500, 100_000)})
    world.submit("a")
    world.deliver()
    for _ in range(2 * MOST_RELEASES):
        world.later(1_500)
    assert world.states() == {"a": "running"}


def test_two_ranks_that_release_at_once_release_once():
    """SageMaker may report the end twice."""
    world = QueueWorld(work={"a": released_after(10)})
    world.submit("a")
    world.deliver()
    world.clock.set(START + 10_000)
    world.plane.advance()
    world.events += list(world.events)
    world.deliver()
    assert (world.job("a").attempts, len(world.job("a").releases)) == (2, 1)


def test_a_release_after_the_user_gave_the_attempt_up_is_a_requeue():
    world = QueueWorld(work={"a": released_after(10)})
    world.submit("a")
    world.deliver()
    world.clock.set(START + 10_000)
    world.plane.advance()  # It has released, and the queue has not heard of it.
    world.manager.changes.amend("a", Amendment(give_up=1), by="ann")
    world.deliver()
    assert world.states() == {"a": "running"}
    assert first_attempt(world, "a").outcome is AttemptOutcome.EVICTED
    assert world.job("a").releases == ()


def test_a_release_of_an_attempt_that_is_over_changes_nothing():
    world = asked()
    world.clock.set(START + 20_000)
    world.plane.advance()
    late = [each for each in world.events if each["detail"]["TrainingJobStatus"] == "Failed"]
    world.deliver()
    before = world.job("low")
    world.events += late
    world.deliver()
    assert world.job("low") == before
