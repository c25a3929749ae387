"""Properties of pools: required at the door, never used up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slotq_core.admission.groups import check_gang
from slotq_core.admission.rules import MAX_POOLS_PER_JOB, admit
from slotq_core.errors import NeverFits
from slotq_core.model.demand import Demand
from slotq_core.model.groups import Group
from slotq_core.model.jobs import Job, Submission
from slotq_core.model.pools import Pool


def pool(name: str, mem: int = 0, nvlink: int = 0, **capacity: int) -> Pool:
    return Pool(
        name=name,
        instance_type="ml.p4d",
        capacity=Demand({"slots": 4, **capacity}),
        properties=Demand(mem=mem, nvlink=nvlink),
    )


MOST = "and the most that its pools have is"
POOLS = [pool("small", 8, nvlink=1), pool("large", 16, gpus=8), pool("bare")]


def asked(*pools: str, **demand: int) -> Submission:
    needed = Demand({"slots": 1, **demand})
    return Submission(name="job", instance_type="ml.p4d", demand=needed, pools=pools)


def in_parts(**parts: Demand) -> Submission:
    total = Demand.total(parts.values())
    return replace(asked(*parts), demand=total, parts=tuple(parts.items()))


def admitted(submission: Submission) -> Job:
    return admit(submission, POOLS, submitter="ann", now=7)


@pytest.mark.parametrize(
    ("submission", "pools", "demand", "requires"),
    [
        (asked(), ("small", "large", "bare"), {}, {}),
        (asked(mem=8), ("small", "large"), {}, {"mem": 8}),
        (asked(mem=9), ("large",), {}, {"mem": 9}),
        (asked(nvlink=1), ("small",), {}, {"nvlink": 1}),
        (asked("bare", "large", "small", mem=8), ("large", "small"), {}, {"mem": 8}),
        (asked(mem=16, gpus=8), ("large",), {"gpus": 8}, {"mem": 16}),
        (asked(mem=8, nvlink=1), ("small",), {}, {"mem": 8, "nvlink": 1}),
    ],
)
def test_a_job_goes_to_the_pools_that_have_what_it_requires(submission, pools, demand, requires):
    job = admitted(submission)
    assert (job.pools, job.requires) == (pools, Demand(requires))
    assert job.demand == Demand({"slots": 1, **demand})


@pytest.mark.parametrize(
    ("submission", "said"),
    [
        (asked(mem=32), f"the job needs mem of at least 32, {MOST} 16 (pool large)"),
        (asked("small", "bare", mem=16), f"mem of at least 16, {MOST} 8 (pool small)"),
        (asked("bare", mem=1), "the job needs mem of at least 1, which none of its pools has"),
        (
            asked(mem=16, nvlink=1),
            f"(pool large) and nvlink of at least 1, {MOST} 1 (pool small); no pool has all of",
        ),
        (
            in_parts(small=Demand(slots=1, mem=8), bare=Demand(slots=1, mem=8)),
            "the part in pool bare needs mem of at least 8, which none of its pools has",
        ),
        (
            asked(mem=8, gpus=9),
            "needs 9 gpus, more than any of its pools: small has 0, large has 8",
        ),
        (asked(unheard_of=1), "the job needs 1 unheard_of, more than any of its pools"),
    ],
)
def test_what_no_pool_has_is_refused_with_the_most_that_there_is(submission, said):
    with pytest.raises(NeverFits) as refused:
        admitted(submission)
    assert said in refused.value.message


def test_each_part_requires_of_its_own_pool():
    parts = {"large": Demand(slots=1, mem=16, gpus=4), "small": Demand(slots=2, mem=8)}
    job = admitted(in_parts(**parts))
    assert job.parts == (("large", Demand(slots=1, gpus=4)), ("small", Demand(slots=2)))
    assert (job.demand, job.requires) == (Demand(slots=3, gpus=4), Demand(mem=16))


def test_pools_without_the_property_do_not_count_against_the_most_pools_of_a_job():
    many = [pool(f"p{n}") for n in range(MAX_POOLS_PER_JOB)]
    job = admit(asked(mem=8), [*many, *POOLS], submitter="ann", now=7)
    assert job.pools == ("small", "large")


def gang(least: int, *members: Submission) -> None:
    named = [replace(member, name=f"m{n}", group="g") for n, member in enumerate(members)]
    names = tuple(member.name for member in named)
    check_gang(Group(name="g", members=names, min_members=least), {"ann": named}, POOLS)


def test_a_gang_counts_the_members_that_a_pool_can_hold():
    gang(2, asked(mem=16), asked(mem=16), asked(mem=32))
    gang(4, *[asked(mem=16)] * 4)


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ([asked(mem=16)] * 5, "gang 'g' must start 5 of its jobs at once, more than"),
        ([asked(mem=16), asked(mem=32)], "the job needs mem of at least 32, and the most"),
        ([asked(mem=32)] * 2, "the job needs mem of at least 32, and the most"),
    ],
)
def test_a_gang_that_no_pools_could_hold_is_refused(members, said):
    with pytest.raises(NeverFits, match=said):
        gang(len(members), *members)
