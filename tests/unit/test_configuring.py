"""Operators' changes of pools, and the refusals."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slotq_core.errors import InvalidRequest, NeverFits, NoSuchPool, Outdated, PoolInUse
from slotq_core.model.demand import Demand
from slotq_core.model.pools import PoolState
from slotq_core.operations.amend import Amendment
from tests.queue_world import START, QueueWorld, pool

BY = "arn:aws:sts::123456789012:assumed-role/Operator/grace"


@pytest.fixture
def world() -> QueueWorld:
    return QueueWorld(pool("p5", 2), pool("p4", 1))


@pytest.fixture
def operator(world):
    return world.manager.configuration


def test_a_change_that_would_lock_its_caller_out_is_refused(world, operator):
    before, revision = operator.settings()

    def change(pattern, **more):
        sharing = replace(before.sharing, operators=(pattern,))
        return operator.apply(replace(before, sharing=sharing), by=BY, **more)

    for more in ({}, {"dry_run": True}):
        with pytest.raises(InvalidRequest, match="would no longer be an operator") as refused:
            change("arn:aws:iam::1:user/other", **more)
        assert (refused.value.field, operator.revision()) == ("operators", revision)
    change(BY.replace("grace", "*"))
    assert operator.revision() == revision + 1


def test_settings_that_are_not_named_stay(world, operator):
    operator.set_pool("p5", {"reserve_after": 60, "pending_timeout": 5}, by=BY)
    operator.set_pool("p5", {"slots": 3}, by=BY)
    (p5, p4) = world.store.configuration.pools()
    before = pool("p5", 2)
    assert p5 == replace(
        before, capacity=Demand(slots=3), reserve_after=60_000, pending_timeout=5_000
    )
    assert p4 == pool("p4", 1)
    operator.set_pool("p5", {"reserve_after": None}, by=BY)
    assert world.store.configuration.pools()[0].reserve_after is None


def test_a_time_slice_of_an_earlier_version_counts(world, operator):
    sliced = replace(pool("p5", 2), time_slice=60_000)
    world.store.configuration.change([sliced, pool("p4", 1)], who=BY, now=START)
    operator.set_pool("p5", {"slots": 3}, by=BY)
    assert [it.time_slice for it in world.store.worlds.load(START).snapshot.pools] == [60_000, None]
    assert world.manager.doctor.examine() == []
    operator.set_pool("p5", {"time_slice": None}, by=BY)
    assert [it.time_slice for it in world.store.worlds.load(START).snapshot.pools] == [None, None]


def test_a_new_pool_comes_last_and_needs_slots_and_a_type(world, operator):
    with pytest.raises(NoSuchPool, match="there is no pool 'p6'; the pools are p5, p4; a new one"):
        operator.set_pool("p6", {"slots": 1}, by=BY)
    operator.set_pool("p6", {"slots": 1, "instance_type": "ml.p6.48xlarge"}, by=BY)
    assert [pool.name for pool in world.store.configuration.pools()] == ["p5", "p4", "p6"]


def test_setting_resources_replaces_all_except_slots(world, operator):
    operator.set_pool("p5", {"resources": {"tokens": 16, "licences": 1}}, by=BY)
    operator.set_pool("p5", {"slots": 4}, by=BY)
    assert world.store.configuration.pools()[0].capacity == Demand(slots=4, tokens=16, licences=1)
    operator.set_pool("p5", {"resources": {"tokens": 32}}, by=BY)
    assert world.store.configuration.pools()[0].capacity == Demand(slots=4, tokens=32)


def test_properties_are_all_that_its_slots_are_like(world, operator):
    operator.set_pool("p5", {"properties": {"disk_in_GiB": 16, "nvlink": 1}}, by=BY)
    operator.set_pool("p5", {"slots": 4}, by=BY)
    p5 = world.store.configuration.pools()[0]
    assert (p5.capacity, p5.properties) == (
        Demand(slots=4),
        Demand({"disk_in_GiB": 16, "nvlink": 1}),
    )
    operator.set_pool("p5", {"properties": {}}, by=BY)
    assert world.store.configuration.pools()[0].properties == Demand()


def test_a_pool_of_before_keeps_what_its_instances_do_not_contain(world, operator):
    """Until it is set anew: an upgrade refuses no change of something else."""
    odd = replace(
        pool("p5", 2),
        instance_type="ml.p5.48xlarge",
        capacity=Demand(slots=2, gpus=12, num_gpus=1),
        properties=Demand({"mem_per_gpu_in_GiB": 79}),
    )
    world.store.configuration.change([odd, pool("p4", 1)], who=BY, now=START)
    operator.set_pool("p5", {"min_runtime": 60}, by=BY)
    operator.set_pool("p5", {"slots": 3}, by=BY)
    p5 = world.store.configuration.pools()[0]
    assert (p5.capacity, p5.properties) == (
        Demand(slots=3, gpus=12, num_gpus=1),
        odd.properties,
    )
    for settings in ({"resources": {"gpus": 13}}, {"properties": {"mem_per_gpu_in_GiB": 78}}):
        with pytest.raises(InvalidRequest, match="or declare"):
            operator.set_pool("p5", settings, by=BY)
    operator.set_pool("p5", {"resources": {}, "properties": {}}, by=BY)
    p5 = world.store.configuration.pools()[0]
    assert (p5.capacity, p5.contents) == (Demand(slots=3, gpus=24), ("gpus",))
    assert p5.properties == Demand()


@pytest.mark.parametrize(
    ("first", "then"), [("resources", "properties"), ("properties", "resources")]
)
@pytest.mark.parametrize("other", ["p5", "p4"])
def test_a_name_is_a_resource_or_a_property_in_the_whole_queue(world, operator, first, then, other):
    operator.set_pool("p5", {first: {"mem": 16}}, by=BY)
    with pytest.raises(InvalidRequest, match="'mem' is a resource of pool") as refused:
        operator.set_pool(other, {then: {"mem": 8}}, by=BY)
    assert refused.value.field == "properties"
    operator.set_pool("p5", {first: {}}, by=BY)
    operator.set_pool(other, {then: {"mem": 8}}, by=BY)


def test_a_job_that_waits_keeps_its_pools_when_a_property_changes(world, operator):
    operator.set_pool("p5", {"properties": {"mem": 16}}, by=BY)
    world.submit("job1", demand="mem=16")
    operator.set_pool("p5", {"properties": {"mem": 8}}, by=BY)
    assert world.job("job1").pools == ("p5",)
    with pytest.raises(NeverFits, match="the most that its pools have is 8"):
        world.submit("job2", demand="mem=16")
    world.deliver()
    assert world.states() == {"job1": "running"}


@pytest.mark.parametrize(
    ("name", "settings", "field"),
    [
        ("p5", {"properties": {"slots": 3}}, "properties"),
        ("p5", {"properties": {"mem per gpu": 3}}, "properties"),
        ("p5", {"properties": {"mem": 0}}, "properties.mem"),
        ("p5", {"properties": {"mem": 1.5}}, "properties.mem"),
        ("p5", {"properties": [1]}, "properties"),
        ("p5", {"slots": -1}, "slots"),
        ("p5", {"slots": 1.5}, "slots"),
        ("p5", {"slots": None}, "slots"),
        ("p5", {"colour": 1}, "colour"),
        ("p5", {"name": "p6"}, "name"),
        ("p5", {"state": "open"}, "state"),
        ("p5", {"instance_type": "p5"}, "instance_type"),
        ("p5", {"pending_timeout": 0}, "pending_timeout"),
        ("p5", {"resources": {"slots": 3}}, "resources"),
        ("p5", {"resources": {"gpus": -1}}, "resources.gpus"),
        ("p5", {"resources": {f"r{n}": 1 for n in range(33)}}, "resources"),
        ("p5", {"properties": {f"r{n}": 1 for n in range(33)}}, "properties"),
        ("-p5", {"slots": 1, "instance_type": "ml.p5.48xlarge"}, "name"),
    ],
)
def test_an_impossible_setting_is_refused_by_its_field_and_changes_nothing(
    world, operator, name, settings, field
):
    with pytest.raises(InvalidRequest) as raised:
        operator.set_pool(name, settings, by=BY)
    assert raised.value.field == field
    assert operator.revision() == 1


def test_each_change_is_recorded_with_its_author(world, operator):
    operator.set_pool("p5", {"slots": 0}, by=BY)
    operator.remove_pool("p4", by=BY)
    removed, resized, _ = operator.changes(limit=9)
    assert {change.who for change in (removed, resized)} == {BY}
    assert resized.at == world.clock.now()
    assert [each.capacity.slots for each in resized.before] == [2, 1]
    assert [each.capacity.slots for each in resized.after] == [0, 1]
    assert (len(removed.before), len(removed.after)) == (2, 1)


def test_a_repeated_change_by_its_author_changes_nothing(world, operator):
    seen = operator.revision()
    operator.set_pool("p5", {"slots": 3}, by=BY, seen=seen)
    operator.set_pool("p5", {"slots": 3}, by=BY, seen=seen)
    operator.set_pool("p5", {"slots": 3}, by="ada")
    assert operator.revision() == seen + 1
    # Two operators who each add one slot to two slots must not both succeed.
    with pytest.raises(Outdated):
        operator.set_pool("p5", {"slots": 3}, by="ada", seen=seen)


def test_the_second_of_two_operators_gets_a_conflict(world, operator):
    seen = operator.revision()
    operator.set_pool("p5", {"slots": 3}, by=BY, seen=seen)
    with pytest.raises(Outdated, match=r"revision 2 .*grace changed it .* not 1"):
        operator.set_pool("p5", {"slots": 5}, by="ada", seen=seen)
    with pytest.raises(Outdated):
        operator.remove_pool("p4", by="ada", seen=seen)
    assert [pool.capacity.slots for pool in world.store.configuration.pools()] == [3, 1]


def test_two_changes_of_different_settings_without_a_revision_both_count(world, operator):
    """The other change comes between the read and the write of this one."""
    configure, others = (
        world.store.configuration.change,
        [("p5", {"slots": 7}), ("p5", {"min_runtime": 9})],
    )

    def hurried(pools, **rest):
        if others:
            name, settings = others.pop()
            operator.set_pool(name, settings, by="ada")
        configure(pools, **rest)

    world.store.configuration.change = hurried
    operator.set_pool("p5", {"reserve_after": 0}, by=BY)
    (p5, _) = world.store.configuration.pools()
    assert (p5.reserve_after, p5.min_runtime, p5.capacity.slots) == (0, 9_000, 7)


def test_a_pool_that_jobs_need_cannot_be_removed(world, operator):
    world.submit("runs", pools="p5")
    world.deliver()
    with pytest.raises(PoolInUse, match=r"slots of it|jobs run in it"):
        operator.remove_pool("p5", by=BY)
    for name in ("a", "b", "c", "d"):
        world.submit(name, pools="p4", slots=1)
    world.submit("either", pools="p4,p5")
    with pytest.raises(PoolInUse, match=r"4 jobs wait for it alone \(a, b, c …\); move or cancel"):
        operator.remove_pool("p4", by=BY)


def test_a_held_job_needs_its_pool_too(world, operator):
    world.submit("mine", pools="p4")
    world.manager.changes.amend("mine", Amendment(held=True), by="ann")
    with pytest.raises(PoolInUse, match=r"1 job waits for it alone \(mine\)"):
        operator.remove_pool("p4", by=BY)


def test_the_last_pool_cannot_be_removed(world, operator):
    operator.remove_pool("p4", by=BY)
    with pytest.raises(InvalidRequest, match="last pool"):
        operator.remove_pool("p5", by=BY)
    with pytest.raises(NoSuchPool, match="'p4'; the pools are p5"):
        operator.remove_pool("p4", by=BY)


def test_a_change_asks_for_a_pass(world, operator):
    world.submit("one", pools="p4")
    world.deliver()
    world.submit("two", pools="p4")
    world.deliver()
    assert world.job("two").state == "pending"
    operator.set_pool("p4", {"slots": 2}, by=BY)
    world.deliver()
    assert world.job("two").state in {"starting", "running"}


def test_a_paused_pool_starts_nothing_until_it_is_resumed(world, operator):
    operator.set_pool("p4", {"state": PoolState.PAUSED}, by=BY)
    world.submit("one", pools="p4")
    world.deliver()
    assert world.job("one").state == "pending"
    operator.set_pool("p4", {"state": PoolState.ACTIVE}, by=BY)
    world.deliver()
    assert world.job("one").state in {"starting", "running"}
