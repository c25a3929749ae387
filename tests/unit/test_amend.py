"""A user changes a queued job: hold, release, priority, pools, tags. Also changes that come too
late."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slotq_core.errors import InvalidRequest, NeverFits, NoSuchJob, TooLate, Unavailable
from slotq_core.model.callers import Access
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import JobState, Submission
from slotq_core.model.projects import Project
from slotq_core.model.sharing import Sharing
from slotq_core.model.users import PriorityClass, classes_of
from slotq_core.operations.amend import Amendment, Revision, settled
from slotq_core.ports.stored import Change
from slotq_core.wire.job_changes import retagged
from slotq_core.wire.submission import parse_submission
from tests.queue_world import START, QueueWorld, evicting, pool
from tests.unit.policy.test_reasons import waits


def retag(world, name, **tags):
    """Change tags as PATCH does."""
    given = {key.replace("_", "-"): value for key, value in tags.items()}
    settings = {key if key == "priority" else f"slotq:{key}": v for key, v in given.items()}
    return world.manager.changes.amend(name, Amendment(revise=revising(settings)), by="ann")


def revising(tags):
    """Change a job as the API does, which also reads the request's own tags."""

    def revise(request):
        before, _ = parse_submission(request)
        after, revised = parse_submission(retagged(request, tags))
        return Revision(request=revised, before=before, after=after)

    return revise


def hold(world, name, *, held=True):
    return world.manager.changes.amend(name, Amendment(held=held), by="ann")


def test_a_move_to_another_project_gives_up_the_claim():
    """The slots were made free for the old project's share."""
    world = evicting()
    access = Access(members=("ann",))
    projects = (Project(name="a", access=access), Project(name="b", access=access))
    world.store.configuration.change(sharing=Sharing(projects=projects), who="test", now=START)
    assert world.job("job2").claim is not None
    for name in ("a", "b"):
        tags = {"slotq:project": name}
        moved = world.manager.changes.amend(
            "job2", Amendment(revise=revising(tags), project=name), by="ann"
        ).job
        assert (moved.project, moved.claim) == (name, None)
    world.deliver()
    assert world.states() == {"job1": "preempted", "job2": "running"}


def test_a_held_job_is_skipped_until_released_and_keeps_its_place():
    world = QueueWorld()
    world.submit("job1")
    assert hold(world, "job1").job.state is JobState.HELD
    assert world.job("job1").message == "held by ann"
    world.later(1)
    world.submit("job2")
    world.deliver()
    assert world.states() == {"job1": "held", "job2": "running"}
    world.later(1)
    world.submit("job3")
    released = hold(world, "job1", held=False)
    assert (released.job.state, released.place) == (JobState.PENDING, None)
    assert world.manager.jobs.status("job1").place == 1
    world.deliver()
    world.later(100)
    assert world.states()["job1"] == "running"


def test_a_held_evicted_job_is_preempted_again_once_released():
    world = evicting()
    world.deliver()
    assert world.job("job1").state is JobState.PREEMPTED
    hold(world, "job1")
    world.later(100)
    assert world.states() == {"job1": "held", "job2": "completed"}
    assert hold(world, "job1", held=False).job.state is JobState.PREEMPTED
    world.deliver()
    assert world.states()["job1"] == "running"


def test_a_hold_gives_up_the_jobs_claim():
    world = evicting()
    assert world.job("job2").claim is not None
    hold(world, "job2")
    assert world.job("job2").claim is None
    world.deliver()
    assert world.states() == {"job1": "running", "job2": "held"}


def test_holding_twice_and_releasing_a_job_that_is_not_held_change_nothing():
    world = QueueWorld()
    world.submit("job1")
    before = world.job("job1")
    hold(world, "job1", held=False)
    assert world.job("job1") == before
    hold(world, "job1")
    before = world.job("job1")
    hold(world, "job1")
    assert world.job("job1") == before


def test_a_held_job_can_be_cancelled():
    world = QueueWorld()
    world.submit("job1")
    hold(world, "job1")
    assert world.manager.changes.cancel("job1", by="ann").job.state is JobState.CANCELLED


def test_a_hold_is_too_late_for_a_job_that_holds_slots():
    world = QueueWorld()
    world.submit("job1")
    world.deliver()
    with pytest.raises(TooLate, match="job1 is running; only a waiting job can be held"):
        hold(world, "job1")
    world.later(200)
    with pytest.raises(TooLate, match="ended"):
        hold(world, "job1")
    with pytest.raises(TooLate, match="ended"):
        retag(world, "job1", priority="3")
    with pytest.raises(NoSuchJob):
        hold(world, "job9")


def test_a_hold_that_races_with_a_start_is_too_late():
    """The start is committed between the hold's read and its commit."""
    world = QueueWorld()
    world.submit("job1")
    commit = world.store.decisions.commit

    def started_first(*args, **kwargs):
        world.store.decisions.commit = commit
        world.deliver()
        return commit(*args, **kwargs)

    world.store.decisions.commit = started_first
    with pytest.raises(TooLate, match="running"):
        hold(world, "job1")
    assert world.states() == {"job1": "running"}


def test_a_change_is_given_up_when_the_job_keeps_changing():
    world = QueueWorld()
    world.submit("job1")
    commit, other = world.store.decisions.commit, iter(range(1, 100))

    def raced(*args, **kwargs):
        world.store.decisions.commit = commit
        retag(world, "job1", priority=str(next(other)))
        world.store.decisions.commit = raced
        return commit(*args, **kwargs)

    world.store.decisions.commit = raced
    with pytest.raises(Unavailable, match="keeps changing"):
        hold(world, "job1")


def test_a_raised_priority_evicts_and_reaches_the_request():
    world = QueueWorld()
    world.submit("job1", priority=2)
    world.deliver()
    world.submit("job2", priority=1)
    world.deliver()
    assert world.states() == {"job1": "running", "job2": "pending"}
    assert retag(world, "job2", priority="5").job.priority == 5
    world.deliver()
    assert world.states() == {"job1": "preempted", "job2": "running"}
    assert {"Key": "priority", "Value": "5"} in world.store.jobs.request("job2")["Tags"]


def test_a_running_jobs_priority_decides_whether_it_is_evicted():
    world = QueueWorld()
    world.submit("job1", priority=1)
    world.deliver()
    retag(world, "job1", priority="9")
    world.submit("job2", priority=5)
    world.deliver()
    assert world.states() == {"job1": "running", "job2": "pending"}


def test_a_job_moves_to_another_pool():
    world = QueueWorld(pool("p"), pool("q"))
    world.submit("job1", pools="p")
    world.deliver()
    world.submit("job2", pools="p")
    world.deliver()
    assert world.states()["job2"] == "pending"
    assert retag(world, "job2", pools="q").job.pools == ("q",)
    world.deliver()
    assert world.job("job2").attempt.pool == "q"


def test_a_job_moves_only_to_pools_that_have_what_it_requires():
    like = Demand(mem=16)
    world = QueueWorld(pool("p", properties=like), pool("q", properties=like), pool("bare"))
    world.submit("job1", pools="p", demand="mem=16")
    assert retag(world, "job1", pools="bare,q").job.pools == ("q",)
    with pytest.raises(NeverFits, match="mem of at least 16, which none of its pools has"):
        retag(world, "job1", pools="bare")
    with pytest.raises(InvalidRequest, match="the tag 'slotq:demand' stays as submitted"):
        retag(world, "job1", demand="mem=8")
    assert (world.job("job1").pools, world.job("job1").requires) == (("q",), like)


def test_a_move_to_another_pool_gives_up_the_claim():
    world = QueueWorld(pool("p"), pool("q"))
    for name, priority in (("old1", 1), ("old2", 1)):
        world.submit(name, priority=priority, pools="p" if name == "old1" else "q")
    world.deliver()
    world.submit("job1", priority=2, pools="p")
    world.manager.passes.run()
    assert world.job("job1").claim.pool == "p"
    assert retag(world, "job1", pools="q").job.claim is None
    world.deliver()
    assert world.states() == {"old1": "running", "old2": "preempted", "job1": "running"}


def test_tags_reach_the_next_training_job():
    world = QueueWorld()
    world.submit("job1")
    world.manager.changes.amend("job1", Amendment(revise=revising({"team": "vision"})), by="ann")
    world.deliver()
    arn = world.client.describe_training_job(TrainingJobName="job1")["TrainingJobArn"]
    tags = world.plane.handle("ListTags", {"ResourceArn": arn})["Tags"]
    assert {"Key": "team", "Value": "vision"} in tags


@pytest.mark.parametrize(
    ("tags", "kind", "said"),
    [
        ({"priority": "1.5"}, InvalidRequest, "integer"),
        ({"priority": "hihg"}, InvalidRequest, "names no class"),
        ({"pools": "nowhere"}, InvalidRequest, "nowhere"),
        ({"pool": "p"}, InvalidRequest, "slotq:pools"),
        ({"pools": "small"}, NeverFits, "more than any"),
    ],
)
def test_a_tag_that_a_submission_may_not_have_changes_nothing(tags, kind, said):
    world = QueueWorld(pool("p", 2), pool("small", 1))
    world.submit("job1", slots=2, pools="p")
    before, request = world.job("job1"), world.store.jobs.request("job1")
    with pytest.raises(kind, match=said):
        retag(world, "job1", **tags)
    assert (world.job("job1"), world.store.jobs.request("job1")) == (before, request)


def test_a_plain_tag_resets_no_used_up_retries():
    world = QueueWorld()
    world.submit("job1", priority=1, retries="2")
    job = world.job("job1")
    world.store.decisions.commit([Change(before=job, after=replace(job, retries=1, priority=0))])
    world.manager.changes.amend("job1", Amendment(revise=revising({"team": "vision"})), by="ann")
    assert (world.job("job1").retries, world.job("job1").priority) == (1, 0)
    retag(world, "job1", retries="5")
    assert (world.job("job1").retries, world.job("job1").priority) == (5, 0)


def test_a_repeated_submission_is_recognised_after_a_change():
    world = QueueWorld()
    world.submit("job1", priority=1)
    retag(world, "job1", priority="7")
    assert world.submit("job1", priority=1).job.priority == 7


LOWER = PriorityClass(name="NORMAL", value=10)
UPPER = PriorityClass(name="ABOVE_NORMAL", value=20, demote_to="NORMAL", demote_after=1_800_000)


@pytest.mark.parametrize(
    ("ran", "expected"), [(600_000, "ABOVE_NORMAL"), (1_800_000, "NORMAL"), (9_000_000, "NORMAL")]
)
def test_a_new_class_does_not_reset_the_time_before_demotion(ran, expected):
    """A class that a user sets anew counts all running time, in whatever class it was."""
    asked = Submission(name="job1", instance_type="t", demand=Demand(slots=1))
    job = waits(
        "job1",
        priority=10,
        priority_class="NORMAL",
        admitted_class="ABOVE_NORMAL",
        ran=ran,
        ran_before_class=1_800_000,
    )
    anew = waits("job1", priority=20, priority_class="ABOVE_NORMAL")
    revision = Revision(request={}, before=asked, after=replace(asked, priority=20))
    after = settled(job, revision, anew, classes_of([UPPER, LOWER]), by="ada")
    assert (after.priority_class, after.ran) == (expected, ran)
    assert after.priority == {"NORMAL": 10, "ABOVE_NORMAL": 20}[expected]
    left = UPPER.demote_after - (after.ran - after.ran_before_class)
    assert expected == "NORMAL" or left == UPPER.demote_after - ran
    assert (after.admitted_class or after.priority_class) == "ABOVE_NORMAL"
