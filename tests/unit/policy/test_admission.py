"""At the door: which pools a submission gets, and what is refused."""

from __future__ import annotations

import pytest

from slotq_core.errors import InvalidRequest, NeverFits
from slotq_core.model import Demand, Pool, Submission
from slotq_core.policy.admission import MAX_POOLS_PER_JOB, admit


def pool(name: str, kind: str, slots: int) -> Pool:
    return Pool(name=name, instance_type=kind, capacity=Demand(slots=slots))


POOLS = [pool("a", "ml.p5", 2), pool("b", "ml.p5", 8), pool("c", "ml.p4d", 4)]


def asked(kind: str = "ml.p5", slots: int = 1, *pools: str) -> Submission:
    return Submission(name="job", instance_type=kind, demand=Demand(slots=slots), pools=pools)


@pytest.mark.parametrize(
    ("submission", "pools"),
    [
        (asked("ml.p5"), ("a", "b")),
        (asked("ml.p4d"), ("c",)),
        (asked("ml.p5", 1, "c", "a"), ("c", "a")),
        (asked("ml.p5", 5), ("a", "b")),
        (asked("anything", 1, "b"), ("b",)),
    ],
)
def test_the_pools_of_its_instance_type_or_those_it_names_in_its_order(submission, pools):
    job = admit(submission, POOLS, submitter="ann", now=7)
    assert job.pools == pools
    assert (job.submitter, job.entry_time, job.demand) == ("ann", 7, submission.demand)


@pytest.mark.parametrize(
    ("submission", "error", "field", "message"),
    [
        (asked("ml.g5"), InvalidRequest, "ResourceConfig.InstanceType", "ml.p4d, ml.p5"),
        (asked("ml.p5", 1, "a", "x"), InvalidRequest, "Tags", "names no pool of this queue: x"),
        (asked("ml.p5", 9), NeverFits, "ResourceConfig.InstanceCount", "a has 2, b has 8"),
        (asked("ml.p5", 3, "a"), NeverFits, "ResourceConfig.InstanceCount", "needs 3 slots"),
    ],
)
def test_refused_with_the_field_and_what_would_be_right(submission, error, field, message):
    with pytest.raises(error, match=message) as refused:
        admit(submission, POOLS, submitter="ann", now=7)
    assert refused.value.field == field


def test_a_job_names_a_bounded_number_of_pools():
    many = [pool(f"p{i}", "ml.p5", 1) for i in range(MAX_POOLS_PER_JOB + 1)]
    with pytest.raises(InvalidRequest, match="at most 16 pools"):
        admit(asked(), many, submitter="ann", now=7)
