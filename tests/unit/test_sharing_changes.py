"""Operators' changes of departments and projects, and what jobs refuse."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slotq_core.errors import (
    Conflict,
    InvalidRequest,
    NoSuchProject,
    Outdated,
    Oversubscribed,
    PoolInUse,
    ProjectInUse,
)
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.projects import EVERYWHERE
from slotq_core.model.sharing import Sharing
from slotq_core.operations.amend import Amendment
from slotq_core.operations.configuring.moving import JOBS_PER_COMMIT
from slotq_core.ports.stored import Change
from slotq_core.wire.document.amending import with_project
from slotq_core.wire.document.contents import read
from slotq_core.wire.document.writing import project_entry, written
from tests.queue_world import INSTANCE_TYPE, QueueWorld, pool

BY = "arn:aws:sts::123456789012:assumed-role/Operator/grace"
DOCUMENT: dict[str, Any] = {
    "pools": [
        {"name": "p5", "capacity": 2, "instance_type": INSTANCE_TYPE},
        {"name": "p4", "capacity": 1, "instance_type": INSTANCE_TYPE},
    ],
    "projects": [
        {"name": "a", "quota": 2, "members": ["ann"]},
        {"name": "b", "quota": 1, "members": ["ann"], "default_for": ["ann"]},
    ],
    "limits": {"waiting": 100},
}


@pytest.fixture
def world() -> QueueWorld:
    return QueueWorld(pool("p5", 2), pool("p4", 1))


@pytest.fixture
def operator(world):
    return world.manager.configuration


def document(**sections):
    return read({**DOCUMENT, **sections})


def submit(world: QueueWorld, name: str, project: str, **fields) -> Job:
    """Submit a job, and put it into a project as if it had been submitted there."""
    world.submit(name, **fields)
    before = world.job(name)
    world.store.decisions.commit([Change(before=before, after=replace(before, project=project))])
    return world.job(name)


def test_a_document_replaces_everything_in_one_change(world, operator):
    done = operator.apply(document(), by=BY, seen=1)
    settings, revision = operator.settings()
    assert (done.revision, revision, world.woken) == (2, 2, 1)
    assert written(settings) == DOCUMENT
    (change, _) = operator.changes(limit=9)
    assert (change.who, change.revision) == (BY, 2)
    assert change.sharing == (Sharing(), document().sharing)


def test_the_same_document_changes_nothing(world, operator):
    operator.apply(document(), by=BY, seen=1)
    assert operator.apply(document(), by="ada").revision == 2
    assert operator.apply(document(), by=BY, seen=1).revision == 2, "the answer may be lost"
    with pytest.raises(Outdated, match="grace changed it"):
        operator.apply(document(), by="ada", seen=1)


def test_a_dry_run_finds_what_would_be_refused_and_writes_nothing(world, operator):
    done = operator.apply(document(), by=BY, dry_run=True)
    assert (done.after, done.revision, operator.revision()) == (document(), 1, 1)
    with pytest.raises(Oversubscribed):
        operator.apply(document(projects=[{"name": "a", "quota": 9}]), by=BY, dry_run=True)
    world.submit("runs", pools="p5")
    world.deliver()
    with pytest.raises(PoolInUse, match="while 1 of its slots"):
        operator.apply(document(pools=DOCUMENT["pools"][1:], projects=[]), by=BY, dry_run=True)


def test_of_two_applies_at_once_one_is_outdated(world, operator):
    configure, other = world.store.configuration.change, [document(projects=[])]

    def hurried(pools, **rest):
        if other:
            operator.apply(other.pop(), by="ada")
        configure(pools, **rest)

    world.store.configuration.change = hurried
    with pytest.raises(Outdated, match="ada changed it"):
        operator.apply(document(), by=BY, seen=1)
    assert operator.settings()[0] == document(projects=[])


def test_two_changes_of_different_projects_both_count(world, operator):
    operator.apply(document(), by=BY)
    configure, other = world.store.configuration.change, ["b"]

    def set_project(name, **keys):
        operator.change(lambda now: with_project(now, name, keys), by=BY)

    def hurried(pools, **rest):
        if other:
            set_project(other.pop(), weight=7)
        configure(pools, **rest)

    world.store.configuration.change = hurried
    set_project("a", weight=5)
    assert [each.weight for each in operator.settings()[0].sharing.projects] == [5, 7]


def test_a_pool_that_a_project_names_cannot_be_removed(world, operator):
    by_pool = [{"name": "a", "quota": {"p4": 1}, "pools": ["p4"]}]
    operator.apply(document(projects=by_pool), by=BY)
    with pytest.raises(PoolInUse, match="project 'a' names pool p4 in its quota"):
        operator.remove_pool("p4", by=BY)
    operator.apply(document(pools=DOCUMENT["pools"][:1], projects=[]), by=BY)
    assert [pool.name for pool in world.store.configuration.pools()] == ["p5"]


def test_a_pool_cannot_shrink_below_a_quota(world, operator):
    operator.apply(document(projects=[{"name": "a", "quota": {"p5": 2}}]), by=BY)
    with pytest.raises(Oversubscribed, match="a quota of 2 slots in pool p5, which has 1"):
        operator.set_pool("p5", {"slots": 1}, by=BY)


def test_a_quota_below_what_runs_for_good_is_refused(world, operator):
    operator.apply(document(), by=BY)
    submit(world, "fixed", "a", preemptible="false", slots=2, pools="p5")
    world.deliver()
    assert world.job("fixed").active
    with pytest.raises(Oversubscribed, match="running jobs that may not be evicted hold 2"):
        operator.change(lambda now: with_project(now, "a", {"quota": 1}), by=BY)


def jobs_of_a(world):
    """One job of each kind: it runs, waits, is held, backs off."""
    submit(world, "runs", "a", slots=2, pools="p5")
    world.deliver()
    submit(world, "waits", "a", slots=2, pools="p5")
    submit(world, "held", "a")
    world.manager.changes.amend("held", Amendment(held=True), by="ann")
    before = submit(world, "backs-off", "a", pools="p4")
    due = world.clock.now() + 60_000
    after = replace(before, state=JobState.BACKOFF, not_before=due)
    world.store.decisions.commit([Change(before=before, after=after)])


def test_a_project_with_jobs_is_refused_with_numbers_and_names(world, operator):
    operator.apply(document(), by=BY)
    jobs_of_a(world)
    told = r"it has 4 jobs, 1 of them with slots \(backs-off, held, runs …\); move them"
    with pytest.raises(ProjectInUse, match=told):
        operator.remove_project("a", by=BY)
    with pytest.raises(ProjectInUse, match=told) as refused:
        operator.apply(document(projects=DOCUMENT["projects"][1:]), by=BY)
    assert [path for path, _ in refused.value.faults] == ["projects"]
    assert operator.revision() == 2


def test_a_project_that_a_notification_names_cannot_be_removed(world, operator):
    topic = "arn:aws:sns:us-east-1:123456789012:told"
    told = {"name": "told", "for": {"project": "a"}, "to": {"sns": topic}}
    operator.apply(document(notifications=[told]), by=BY)
    submit(world, "job1", "a")
    for to in (None, "b"):
        with pytest.raises(ProjectInUse, match="notification 'told' names project a in its 'for'"):
            operator.remove_project("a", by=BY, move_to=to)
    assert world.job("job1").project == "a"
    operator.apply(document(), by=BY)
    assert operator.remove_project("a", by=BY, move_to="b").moved == 1


def test_jobs_can_move_before_their_project_goes(world, operator):
    operator.apply(document(), by=BY)
    jobs_of_a(world)
    entered = {name: world.job(name).entry_time for name in ("runs", "waits", "held", "backs-off")}
    done = operator.remove_project("a", by=BY, move_to="b")
    assert (done.moved, [each.name for each in done.after.sharing.projects]) == (4, ["b"])
    for name, entry in entered.items():
        assert (world.job(name).project, world.job(name).entry_time) == ("b", entry)
    assert world.job("runs").state == JobState.RUNNING
    world.later(100)
    assert world.job("runs").state == JobState.COMPLETED
    assert world.job("waits").state == JobState.RUNNING


def test_a_move_that_was_interrupted_goes_on(world, operator):
    operator.apply(document(), by=BY)
    for number in range(2 * JOBS_PER_COMMIT + 1):
        submit(world, f"job{number}", "a")
    commit, calls = world.store.decisions.commit, []

    def dying(changes, **rest):
        calls.append(changes)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return commit(changes, **rest)

    world.store.decisions.commit = dying
    with pytest.raises(KeyboardInterrupt):
        operator.remove_project("a", by=BY, move_to="b")
    world.store.decisions.commit = commit
    assert operator.settings()[0].sharing.project("a") is not None
    done = operator.remove_project("a", by=BY, move_to="b")
    assert done.moved == JOBS_PER_COMMIT + 1
    assert {world.job(f"job{n}").project for n in range(31)} == {"b"}


def test_a_job_that_changes_meanwhile_moves_all_the_same(world, operator):
    operator.apply(document(), by=BY)
    submit(world, "job1", "a")
    commit, others = world.store.decisions.commit, [Amendment(held=True)]

    def hurried(changes, **rest):
        if others:
            world.manager.changes.amend("job1", others.pop(), by="ann")
        return commit(changes, **rest)

    world.store.decisions.commit = hurried
    assert operator.remove_project("a", by=BY, move_to="b").moved == 1
    assert (world.job("job1").project, world.job("job1").state) == ("b", JobState.HELD)


def test_a_job_left_in_a_removed_project_waits_for_what_is_idle(world, operator):
    """A submission that had read the old configuration may come after the removal."""
    operator.apply(document(projects=DOCUMENT["projects"][1:]), by=BY)
    submit(world, "late", "a", pools="p5")
    submit(world, "other", "b", pools="p5")
    world.deliver()
    assert {world.job(name).state for name in ("late", "other")} == {JobState.RUNNING}
    assert operator.remove_project("a", by=BY, move_to="b").moved == 1
    with pytest.raises(NoSuchProject):
        operator.remove_project("a", by=BY, move_to="b")


def test_jobs_do_not_move_where_their_slots_are_more_than_the_quota(world, operator):
    operator.apply(document(), by=BY)
    submit(world, "fixed", "a", preemptible="false", slots=2, pools="p5")
    world.deliver()
    with pytest.raises(Oversubscribed, match="'b' has a quota of 1 slots"):
        operator.remove_project("a", by=BY, move_to="b")
    assert world.job("fixed").project == "a"


@pytest.mark.parametrize(("to", "said"), [("a", "another project"), ("c", "the projects are a, b")])
def test_jobs_move_to_another_project_that_there_is(operator, to, said):
    operator.apply(document(), by=BY)
    with pytest.raises(InvalidRequest, match=said) as refused:
        operator.remove_project("a", by=BY, move_to=to)
    assert refused.value.field == "move_to"
    with pytest.raises(Outdated):
        operator.remove_project("a", by="ada", seen=1, move_to="b")


def test_a_key_of_a_project_changes_and_the_others_stay(operator):
    operator.apply(document(), by=BY)

    def set_project(name, keys):
        operator.change(lambda now: with_project(now, name, keys), by=BY)
        return operator.settings()[0].sharing

    sharing = set_project("a", {"weight": "High", "members": ["arn:aws:iam::1:role/x"]})
    assert sharing.project("a").quota == {EVERYWHERE: Demand(slots=2)}
    assert (sharing.project("a").weight, sharing.project("a").access.members) == (
        3,
        ("arn:aws:iam::1:role/x",),
    )
    by_resource = set_project("a", {"weight": {"slots": "None"}}).project("a")
    assert by_resource.weight == {"slots": 0}
    assert set_project("a", {"weight": {}}).project("a").weight is None
    assert set_project("a", {"weight": None, "quota": None}).project("a").weight is None
    assert [each.name for each in set_project("c", {"priority": 1}).projects] == ["a", "b", "c"]


def test_a_pool_without_amounts_in_a_limit_is_not_limited():
    """Its export said 0, and nothing of the project would have run there once it was applied."""
    (project,) = document(projects=[{"name": "a", "limit": {"p5": {}}}]).sharing.projects
    assert project.limit == {}
    assert project_entry(replace(project, limit={"p5": {}, "p4": {"slots": 1}})) == {
        "name": "a",
        "limit": {"p4": 1},
    }


@pytest.mark.parametrize(
    ("name", "keys", "field"),
    [
        ("a", {"quotas": 1}, "quotas"),
        ("a", {"quota": -1}, "quota"),
        ("b", {"quota": {"p5": 1}}, "quota"),
        ("a", {"department": "d"}, "department"),
        ("a", {"pools": ["p6"]}, "pools[0]"),
        ("a", {"members": ["*"]}, "members[0]"),
        ("a", {"requests": {"waitin": 1}}, "requests.waitin"),
        ("no name", {"quota": 1}, "name"),
    ],
)
def test_a_fault_in_a_key_is_told_by_the_key(operator, name, keys, field):
    operator.apply(document(), by=BY)
    with pytest.raises(InvalidRequest) as refused:
        operator.change(lambda now: with_project(now, name, keys), by=BY)
    assert refused.value.field == field


def test_a_conflict_with_a_store_is_tried_again(world, operator):
    configure, fails = world.store.configuration.change, [Conflict("lost a race")]

    def once(pools, **rest):
        if fails:
            raise fails.pop()
        configure(pools, **rest)

    world.store.configuration.change = once
    assert operator.apply(document(), by=BY).revision == 2
