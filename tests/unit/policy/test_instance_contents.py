"""Quotas of GPUs, CPUs and memory: pools and jobs count what their instances contain."""

from __future__ import annotations

from typing import Any

import pytest

from slotq_core.adapters.memory.store import MemoryStore
from slotq_core.admission.instance_contents import contained, counting, declared
from slotq_core.admission.rules import admit
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Submission
from slotq_core.model.pools import Pool
from slotq_core.model.projects import EVERYWHERE, Department, Project
from slotq_core.model.sharing import NO_SHARING, Sharing

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
