"""What instances contain: jobs ask for it, quotas count it, and pools do not contradict it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slotq_core.adapters.memory.store import MemoryStore
from slotq_core.admission.groups import check_gang
from slotq_core.admission.instances.instance_contents import (
    contained,
    counting,
    declared,
    properties_of,
)
from slotq_core.admission.rules import admit
from slotq_core.errors import InvalidRequest, NeverFits
from slotq_core.model.demand import Demand
from slotq_core.model.groups import Group
from slotq_core.model.jobs import Job, Submission
from slotq_core.model.pools import Pool
from slotq_core.model.projects import EVERYWHERE, Department, Project
from slotq_core.model.sharing import NO_SHARING, Sharing
from slotq_core.wire.pool_definition import check_declared, following

P5 = Pool(name="p5", instance_type="ml.p5.48xlarge", capacity=Demand(slots=2))
G5 = Pool(name="g5", instance_type="ml.g5.12xlarge", capacity=Demand(slots=3))
ODD = Pool(name="odd", instance_type="ml.odd.large", capacity=Demand(slots=1))
GPUS = Sharing(projects=(Project(name="a", quota={EVERYWHERE: Demand(gpus=8)}),))


def submission(slots: int = 1, **fields: Any) -> Submission:
    demand = Demand({"slots": slots, **fields.pop("demand", {})})
    return Submission(name="j", instance_type="", demand=demand, **fields)


def test_pools_count_what_a_quota_names():
    p5, g5 = counting([P5, G5], GPUS)
    assert (p5.capacity, p5.contents) == (Demand(slots=2, gpus=16), ("gpus",))
    assert g5.capacity == Demand(slots=3, gpus=12)
    assert counting([P5], NO_SHARING) == (P5,)


@pytest.mark.parametrize(
    "sharing",
    [
        Sharing(departments=(Department(name="d", quota={"p5": Demand(vcpus=1)}),)),
        Sharing(projects=(Project(name="a", limit={"p5": {"vcpus": 0}}),)),
    ],
    ids=["a department's quota", "a project's limit"],
)
def test_departments_and_limits_name_contents_too(sharing: Sharing):
    assert counting([P5], sharing)[0].capacity == Demand(slots=2, vcpus=384)


def test_a_declared_resource_is_not_counted():
    own = Pool(name="p5", instance_type=P5.instance_type, capacity=Demand(slots=2, gpus=5))
    assert counting([own], GPUS) == (own,)


def test_an_unknown_instance_type_counts_nothing():
    assert counting([ODD], GPUS) == (ODD,)


def test_what_is_counted_once_is_counted_for_good():
    """Jobs that hold it must fit into the pool when they wait again."""
    counted = counting([P5], GPUS)
    assert counting([declared(counted[0])], NO_SHARING, before=counted) == counted


def test_a_job_demands_what_its_instances_contain():
    pools = counting([P5, G5], GPUS)
    job = admit(submission(2, pools=("p5",)), pools, submitter="u", now=0)
    assert job.demand == Demand(slots=2, gpus=16)


def test_of_several_instance_types_the_least_counts():
    pools = counting([P5, G5], GPUS)
    assert contained(pools, 2) == Demand(gpus=8)
    assert contained([*pools, ODD], 2) == Demand()


def test_the_instances_count_whatever_the_submission_says():
    pools = counting([P5], GPUS)
    job = admit(submission(demand={"gpus": 1}, pools=("p5",)), pools, submitter="u", now=0)
    assert job.demand == Demand(slots=1, gpus=8)


def test_a_store_counts_at_every_change():
    store = MemoryStore()
    store.configuration.change([P5], who="ada", now=0)
    store.configuration.change(sharing=GPUS, who="ada", now=0)
    assert store.configuration.pools()[0].capacity == Demand(slots=2, gpus=16)
    larger = Pool(name="p5", instance_type=P5.instance_type, capacity=Demand(slots=3))
    store.configuration.change([larger], who="ada", now=0)
    assert store.configuration.pools()[0].capacity == Demand(slots=3, gpus=24)
    store.configuration.change(sharing=NO_SHARING, who="ada", now=0)
    assert store.configuration.pools()[0].capacity == Demand(slots=3, gpus=24)


CPU = Pool(name="cpu", instance_type="ml.m5.large", capacity=Demand(slots=9))
OWN = replace(ODD, name="own", capacity=Demand(slots=4, gpus=16))
EVERY = [P5, G5, ODD, CPU, OWN]


def asks(*pools: str, slots: int = 1, of: list[Pool] = EVERY, **demand: int) -> Job:
    asked = submission(slots, demand=demand, pools=pools)
    return admit(asked, of, submitter="u", now=0)


@pytest.mark.parametrize(
    ("job", "pools", "demand", "requires"),
    [
        (asks("p5", gpus=8), ("p5",), {"slots": 1}, {"gpus": 8}),
        (asks("p5", num_gpus=8), ("p5",), {"slots": 1}, {"gpus": 8}),
        (asks("p5", slots=2, gpus=15), ("p5",), {"slots": 2}, {"gpus": 8}),
        (asks("p5", "g5", gpus=4), ("p5", "g5"), {"slots": 1}, {"gpus": 4}),
        (asks("p5", "g5", gpus=5), ("p5",), {"slots": 1}, {"gpus": 5}),
        (asks("p5", "g5", slots=2, gpus=8), ("p5", "g5"), {"slots": 2}, {"gpus": 4}),
        (asks("cpu", "odd", "p5", gpus=1), ("p5",), {"slots": 1}, {"gpus": 1}),
        (asks("cpu", "g5", vcpus=2), ("cpu", "g5"), {"slots": 1}, {"vcpus": 2}),
        (asks("cpu", "g5", memory_gib=9), ("g5",), {"slots": 1}, {"memory_gib": 9}),
        (
            asks("p5", "g5", mem_per_gpu_in_GiB=23),
            ("p5",),
            {"slots": 1},
            {"mem_per_gpu_in_GiB": 23},
        ),
        (
            asks("p5", "g5", num_gpus=1, mem_per_gpu_in_GiB=1),
            ("p5", "g5"),
            {"slots": 1},
            {"gpus": 1, "mem_per_gpu_in_GiB": 1},
        ),
        (asks("own", gpus=8), ("own",), {"slots": 1, "gpus": 8}, {}),
        (asks("own", num_gpus=8), ("own",), {"slots": 1, "gpus": 8}, {}),
    ],
)
def test_a_job_asks_for_what_instances_contain_and_takes_slots_only(job, pools, demand, requires):
    assert (job.pools, job.demand, job.requires) == (pools, Demand(demand), Demand(requires))


def test_a_job_that_asks_for_nothing_is_as_it_was():
    job = asks("p5", "g5", slots=2)
    assert (job.pools, job.demand, job.requires) == (("p5", "g5"), Demand(slots=2), Demand())


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (
            {"pools": ("p5",), "demand": {"gpus": 9}},
            "1 instance contains at most 8 (pool p5, ml.p5.48xlarge): that takes 2 instances",
        ),
        (
            {"pools": ("g5", "p5"), "slots": 2, "demand": {"num_gpus": 17}},
            "its 2 instances contain at most 16 (pool p5, ml.p5.48xlarge): that takes 3 instances",
        ),
        (
            {"pools": ("cpu",), "demand": {"gpus": 1}},
            "the job needs 1 gpus, and no instance of its pools contains any",
        ),
        (
            {"pools": ("cpu",), "demand": {"mem_per_gpu_in_GiB": 1}},
            "the job needs mem_per_gpu_in_GiB of at least 1, which none of its pools has",
        ),
        (
            {"pools": ("p5",), "demand": {"mem_per_gpu_in_GiB": 81}},
            "mem_per_gpu_in_GiB of at least 81, and the most that its pools have is 80 (pool p5)",
        ),
        (
            {"pools": ("odd",), "demand": {"gpus": 1}},
            "SlotQ does not know what ml.odd.large contains: an operator can say so, `slotq pools",
        ),
        (
            {"pools": ("odd",), "demand": {"mem_per_gpu_in_GiB": 1}},
            "mem_per_gpu_in_GiB of at least 1, which none of its pools has",
        ),
        (
            {"pools": ("g5", "p5"), "demand": {"gpus": 9, "mem_per_gpu_in_GiB": 99}},
            "takes 2 instances; no pool has all of these together",
        ),
        ({"pools": ("own",), "demand": {"gpus": 17}}, "needs 17 gpus, more than any of its pools"),
    ],
)
def test_too_much_is_refused_with_what_there_is_and_how_many_instances_it_takes(asked, said):
    fields = {"slots": 1, **asked}
    with pytest.raises(NeverFits) as refused:
        admit(submission(fields.pop("slots"), **fields), EVERY, submitter="u", now=0)
    assert said in refused.value.message


def test_too_much_is_refused_where_a_quota_counts_too():
    """Today's overwriting of what a job says hides nothing."""
    pools = counting([P5, G5], GPUS)
    with pytest.raises(NeverFits, match="9 gpus, and its 1 instance contains at most 8"):
        admit(submission(demand={"gpus": 9}, pools=("p5", "g5")), pools, submitter="u", now=0)
    job = admit(submission(demand={"gpus": 8}, pools=("p5", "g5")), pools, submitter="u", now=0)
    assert (job.pools, job.demand, job.requires) == (
        ("p5",),
        Demand(slots=1, gpus=8),
        Demand(),
    )


def test_two_words_for_one_thing_are_refused():
    with pytest.raises(InvalidRequest, match="for gpus and for num_gpus, which are the same"):
        asks("p5", gpus=1, num_gpus=1)


def test_a_word_that_a_pool_of_earlier_declares_is_its_own():
    old = replace(P5, name="old", capacity=Demand(slots=2, num_gpus=2))
    job = asks("old", of=[old, G5], num_gpus=1)
    assert (job.pools, job.demand) == (("old",), Demand(slots=1, num_gpus=1))


@pytest.mark.parametrize(
    ("declared_gpus", "demand"), [(16, {}), (17, {}), (8, {"gpus": 8}), (15, {"gpus": 8})]
)
def test_beside_a_pool_that_counts_less_gpus_are_taken(declared_gpus, demand):
    """Of a pool that counts as many GPUs as its slots contain, slots are used up first."""
    counts = replace(P5, name="counts", capacity=Demand(slots=2, gpus=declared_gpus))
    job = asks("counts", "p5", of=[counts, P5], gpus=8)
    assert job.demand == Demand({"slots": 1, **demand})
    alone = asks("counts", of=[counts, P5], gpus=8)
    assert alone.demand == Demand(slots=1, gpus=8), "as ever"


def test_each_part_asks_of_its_own_instances():
    parts = (("p5", Demand(slots=1, gpus=8)), ("g5", Demand(slots=2, num_gpus=8)))
    asked = submission(3, pools=("p5", "g5"), parts=parts)
    job = admit(asked, EVERY, submitter="u", now=0)
    assert job.parts == (("p5", Demand(slots=1)), ("g5", Demand(slots=2)))
    assert (job.demand, job.requires) == (Demand(slots=3), Demand(gpus=8))
    parts = (("p5", Demand(slots=1, gpus=8)), ("g5", Demand(slots=2, gpus=9)))
    with pytest.raises(NeverFits, match="the part in pool g5 needs 9 gpus, and its 2 instances"):
        admit(replace(asked, parts=parts), EVERY, submitter="u", now=0)


def test_a_gang_may_ask_for_what_instances_contain():
    members = [
        replace(submission(demand={"gpus": 5}, pools=("p5",)), name=name, group="g")
        for name in "abc"
    ]
    group = Group(name="g", members=("a", "b"), min_members=2)
    check_gang(group, {"u": members[:2]}, EVERY)
    group = replace(group, members=("a", "b", "c"), min_members=3)
    with pytest.raises(NeverFits, match="must start 3 of its jobs at once"):
        check_gang(group, {"u": members}, EVERY)


@pytest.mark.parametrize(
    ("pool", "said"),
    [
        ({"gpus": 12}, "2 instances of ml.p5.48xlarge contain 16: leave gpus out, or declare 16"),
        ({"gpus": 17}, "declares 17 gpus"),
        ({"vcpus": 1}, "declares 1 vcpus, but its 2 instances of ml.p5.48xlarge contain 384"),
        ({"memory_gib": 1}, "contain 4096: leave memory_gib out, or declare 4096"),
        ({"num_gpus": 16}, "declares num_gpus, which are gpus here: name them so"),
        ({"mem_per_gpu_in_GiB": 16}, "but each GPU of ml.p5.48xlarge has 80: leave mem_per_gpu"),
        ({"slots": 1, "gpus": 9}, "declares 9 gpus, but its ml.p5.48xlarge has 8"),
        ({"type": "ml.m5.large", "gpus": 8}, "contain 0: leave gpus out"),
        ({"type": "ml.m5.large", "mem_per_gpu_in_GiB": 8}, "but ml.m5.large has no GPUs: leave"),
        ({"type": "ml.odd.large", "num_gpus": 8}, "which are gpus here"),
        ({"gpus": 16, "vcpus": 384, "mem_per_gpu_in_GiB": 80, "licences": 1}, ""),
        ({"type": "ml.odd.large", "gpus": 5, "mem_per_gpu_in_GiB": 3}, ""),
        ({"slots": 0}, ""),
    ],
)  # fmt: skip
def test_a_pool_declares_what_its_instances_contain(pool: dict[str, Any], said: str):
    kind = pool.pop("type", P5.instance_type)
    properties = {name: n for name, n in pool.items() if name == "mem_per_gpu_in_GiB"}
    capacity = {"slots": 2, **{name: n for name, n in pool.items() if name not in properties}}
    made = Pool(
        name="p",
        instance_type=kind,
        capacity=Demand(capacity),
        properties=Demand(properties),
    )
    if not said:
        check_declared((), [made])
        return
    with pytest.raises(InvalidRequest) as refused:
        check_declared((), [made])
    assert said in refused.value.message
    assert refused.value.field == ("properties" if properties else "resources")
    check_declared([made], [replace(made, min_runtime=1)])
    shrunk = Demand({**made.capacity, "slots": made.capacity.slots + 7})
    check_declared([made], [replace(made, capacity=shrunk)])


def test_a_resource_is_no_property():
    made = replace(P5, properties=Demand(gpus=8))
    with pytest.raises(
        InvalidRequest, match="declares gpus as a property, but gpus are a resource"
    ):
        check_declared((), [made])


def test_another_wrong_number_is_refused():
    before = replace(P5, capacity=Demand(slots=2, gpus=12))
    with pytest.raises(InvalidRequest, match="declares 13 gpus"):
        check_declared([before], [replace(P5, capacity=Demand(slots=2, gpus=13))])


def test_what_was_declared_rightly_follows_the_slots():
    right = replace(
        P5,
        capacity=Demand(slots=2, gpus=16, licences=1),
        properties=Demand({"mem_per_gpu_in_GiB": 80}),
    )
    grown = replace(right, capacity=Demand(slots=3, gpus=16, licences=1))
    after = following(right, grown)
    assert after.capacity == Demand(slots=3, licences=1)
    (counts,) = counting([after], NO_SHARING, before=[right])
    assert counts.capacity == Demand(slots=3, gpus=24, licences=1), "jobs there hold GPUs"
    assert following(right, grown, named=("resources",)) == grown
    other = following(right, replace(right, instance_type="ml.g5.48xlarge"))
    assert (other.capacity, other.properties) == (right.capacity, Demand())
    wrong = replace(right, capacity=Demand(slots=2, gpus=12))
    grown = replace(wrong, capacity=Demand(slots=3, gpus=12))
    assert following(wrong, grown) == grown


def test_a_declared_property_is_what_counts():
    """Of a pool from before this rule."""
    old = replace(G5, properties=Demand({"mem_per_gpu_in_GiB": 24}))
    assert properties_of(old)["mem_per_gpu_in_GiB"] == 24
    assert properties_of(old)["gpus"] == 4
    assert properties_of(ODD) == Demand()
