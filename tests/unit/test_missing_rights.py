"""A missing right closes pools or holds back jobs of one role, and ends no job."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slotq_core.adapters.dynamodb.layout.items import health_of
from slotq_core.adapters.dynamodb.layout.records import write
from slotq_core.model.pools import MissingRight, PoolHealth
from slotq_core.model.reasons import RightsMissing
from slotq_core.policy.lifecycle.missing_rights import MOST_REMEMBERED, after_refusal
from slotq_core.policy.lines import Line, line_of
from slotq_core.wire.views.jobs import reason_view
from slotq_core.wire.views.pools import pool_view
from tests.queue_world import QueueWorld, pool

TYPO = "arn:aws:iam::123456789012:role/tpyo"
CREATE = "sagemaker:CreateTrainingJob"


def missing(world: QueueWorld, name: str = "p") -> tuple[MissingRight, ...]:
    found = world.store.health.pool(name)
    assert found is not None
    return found.health.missing_rights


def test_a_minute_without_rights_ends_no_job():
    world = QueueWorld(pool(slots=50))
    world.plane.knobs.denied = CREATE
    for number in range(50):
        world.submit(f"job{number}")
    world.deliver()
    assert set(world.states().values()) == {"pending", "backoff"}
    assert world.plane.calls["CreateTrainingJob"] == 1, "one job finds out for all"
    world.later(20)
    assert world.plane.calls["CreateTrainingJob"] == 1, "the pool backs off"
    world.plane.knobs.denied = ""
    world.later(60)
    assert set(world.states().values()) == {"running"}
    assert missing(world) == ()


def test_the_reason_names_the_missing_right():
    world = QueueWorld()
    world.plane.knobs.denied = CREATE
    world.submit("first")
    world.submit("second")
    world.deliver()
    why = world.manager.jobs.status("second").reason
    assert isinstance(why, RightsMissing)
    assert (why.pool, why.role, why.action) == ("p", "", CREATE)
    assert why.until == world.clock.now() + 30_000
    assert f"the queue lacks {CREATE} in pool p; tried again at" in why.sentence()
    view = reason_view(why)
    assert view.code == "rights_missing"
    assert CREATE in world.manager.jobs.status("first").job.message


@pytest.mark.parametrize("knobs", [{"lost_roles": TYPO}, {"lost_roles": "*tpyo"}])
def test_a_wrong_role_holds_back_only_its_own_jobs(knobs):
    world = QueueWorld(pool(slots=2))
    world.plane.knobs.turn(knobs)
    for name in ("bad1", "bad2", "bad3"):
        world.submit(name, role=TYPO, priority=5)
    world.submit("good1")
    world.submit("good2")
    world.deliver()
    states = world.states()
    assert states.pop("bad1") == "backoff"
    assert states == {"bad2": "pending", "bad3": "pending", "good1": "running", "good2": "running"}
    why = world.manager.jobs.status("bad2").reason
    assert isinstance(why, RightsMissing)
    assert (why.role, why.action) == (TYPO, "sts:AssumeRole")
    assert TYPO in why.sentence()


def test_one_job_at_a_time_tries_the_role_and_not_the_refused_one():
    world = QueueWorld(pool(slots=5))
    world.plane.knobs.denied = "iam:PassRole"
    for name in ("a", "b", "c"):
        world.submit(name)
    world.deliver()
    world.later(31)
    assert world.plane.calls["CreateTrainingJob"] == 2
    assert world.job("b").attempts == 1, "the next in line tries"
    world.plane.knobs.denied = ""
    world.later(61)
    assert world.job("c").state == "running"
    assert missing(world) == ()
    world.later(600)
    assert set(world.states().values()) == {"completed"}


def test_nothing_is_evicted_while_a_right_is_missing():
    """A stopped job could not start again either."""
    world = QueueWorld(runtime=10_000_000)
    world.submit("low")
    world.deliver()
    world.plane.knobs.lost_roles = TYPO
    world.submit("high", priority=9, role=TYPO)
    world.deliver()
    assert world.job("low").evictions == 1, "once: nothing was known yet"
    world.later(5)
    assert world.states() == {"low": "running", "high": "backoff"}
    for _ in range(20):
        world.later(120)
    assert world.job("low").evictions == 1
    why = world.manager.jobs.status("high").reason
    assert isinstance(why, RightsMissing) and why.until is None
    outlook = world.manager.jobs.status("high").outlook
    assert outlook is not None and outlook.spared == ()


def test_a_cancel_wins_over_a_missing_right():
    world = QueueWorld()
    world.plane.knobs.denied = CREATE
    world.submit("job1")
    world.deliver()
    world.manager.changes.cancel("job1", by="ann")
    world.later(600)
    assert world.states() == {"job1": "cancelled"}


def test_a_refusal_after_a_create_with_a_lost_answer_does_not_count():
    """The answer is lost and the retry refused, but the training job runs."""
    world = QueueWorld()
    world.plane.knobs.lose_answers = 1
    world.submit("job1")
    world.manager.passes.run()
    world.plane.knobs.denied = CREATE
    world.later(61)
    world.later(100)
    assert world.job("job1").attempts == 1
    assert world.training_jobs() == {"job1": "Completed"}
    assert world.states() == {"job1": "completed"}


def test_the_intent_stays_and_the_pool_closes_when_sagemaker_cannot_be_read():
    world = QueueWorld(pool(slots=5))
    world.plane.knobs.denied = f"{CREATE},sagemaker:DescribeTrainingJob"
    for name in ("a", "b", "c"):
        world.submit(name)
    world.deliver()
    assert world.states() == {"a": "starting", "b": "pending", "c": "pending"}
    world.plane.knobs.denied = ""
    world.later(61)
    world.later(1)
    assert set(world.states().values()) == {"running"}
    assert world.job("a").attempts == 1


def test_a_refused_stop_is_reported_and_stays_an_intent():
    world = QueueWorld(runtime=10_000_000)
    world.submit("job1")
    world.deliver()
    world.plane.knobs.denied = "sagemaker:StopTrainingJob"
    world.manager.changes.cancel("job1", by="ann")
    world.clock.set(world.clock.now() + 61_000)
    result = world.manager.passes.run()
    assert "a right is missing, sagemaker:StopTrainingJob" in result.troubles[0]
    assert world.states() == {"job1": "stopping"}
    world.plane.knobs.denied = ""
    world.later(121)
    assert world.states() == {"job1": "cancelled"}


def test_a_role_may_be_lost_after_the_create_was_accepted():
    """SageMaker notices only when it provisions."""
    world = QueueWorld()
    world.submit("job1")
    world.manager.passes.run()
    failed = {
        "TrainingJobName": "job1",
        "TrainingJobStatus": "Failed",
        "SecondaryStatus": "Failed",
        "FailureReason": "ClientError: SageMaker was unable to assume the role 'arn:aws:iam::1:x'",
    }
    from slotq_core.adapters.sagemaker.observations import observation_of

    world.plane.job("job1").enter("Failed", "Failed", world.clock.now(), "")
    world.manager.observe(observation_of(failed, at=world.clock.now()))
    assert world.job("job1").state == "backoff"
    assert [each.action for each in missing(world)] == ["sts:AssumeRole"]


def test_the_doctor_names_the_right_to_add_and_tries_again():
    world = QueueWorld(pool(slots=1), pool("q", slots=1))
    world.plane.knobs.denied = "iam:PassRole"
    world.submit("job1", pools="p")
    world.deliver()
    (found,) = [each for each in world.manager.doctor.examine() if each.kind == "missing_right"]
    assert found.subject == "p"
    assert "ExecutionRoleArns" in found.text
    assert not found.mended
    assert [
        each.mended for each in world.manager.doctor.examine(fix=True) if each.kind == found.kind
    ]
    assert missing(world) == ()


def test_a_pass_reports_missing_rights():
    world = QueueWorld()
    world.plane.knobs.denied = CREATE
    world.submit("job1")
    result = world.manager.passes.run()
    (told,) = result.missing_rights
    assert told.startswith(f"pool p: a right is missing, {CREATE}")


def test_missing_rights_survive_storing():
    health = PoolHealth(
        missing_rights=(
            MissingRight(action=CREATE, since=1, not_before=2),
            MissingRight(role=TYPO, action="iam:PassRole", since=3, refusals=4, not_before=5),
        )
    )
    assert health_of(write(health)) == health
    shown = pool_view(
        replace(pool(), health=health), now=0, size=pool().capacity, used=pool().capacity
    )
    assert [each.role for each in shown.health.missing_rights] == ["", TYPO]


def test_a_pool_keeps_a_bounded_number_of_missing_rights():
    health = after_refusal(PoolHealth(), role="", action=CREATE, message="", now=0)
    for number in range(3 * MOST_REMEMBERED):
        health = after_refusal(health, role=f"r{number}", action="a", message="", now=number)
    assert len(health.missing_rights) == MOST_REMEMBERED
    assert health.missing_rights[0].role == ""


def test_many_wrong_roles_do_not_starve_a_right_one():
    world = QueueWorld(pool(slots=1))
    world.plane.knobs.lost_roles = "*tpyo*"
    for number in range(2 * MOST_REMEMBERED):
        world.submit(f"bad{number}", role=f"{TYPO}{number}", priority=5)
    world.submit("good")
    world.deliver()
    assert world.job("good").state == "running"


def test_a_line_has_one_role_and_older_lines_without_one_are_read():
    world = QueueWorld()
    job = world.submit("job1").job
    assert Line.parse(line_of(job)) == Line.of(job)
    assert line_of(job) != line_of(replace(job, role=TYPO))
    old = replace(job, role="")
    assert Line.parse(line_of(old)) == Line.of(old)
    assert line_of(old).count(",") < line_of(job).count(",")
    with_user = Line.of(job, by_user=True)
    assert Line.parse(with_user.key) == with_user
