"""Admission of a submission: its pools, or the refusal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slotq_core.admission.rules import MAX_POOLS_PER_JOB, admit
from slotq_core.errors import ClassNotAllowed, InvalidRequest, NeverFits
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import Job, Submission
from slotq_core.model.pools import Pool
from slotq_core.model.users import AUTO_VALUE, User, UserGroup
from slotq_core.policy.state.user_limits import Rights
from slotq_core.privacy.identity import BY_DEFAULT, People


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
def test_a_job_gets_the_pools_of_its_instance_type_or_those_it_names(submission, pools):
    job = admit(submission, POOLS, submitter="ann", now=7)
    assert job.pools == pools
    assert (job.submitter, job.entry_time, job.demand) == ("ann", 7, submission.demand)
    assert job.person == "ann"


RESEARCH = "arn:aws:sts::123456789012:assumed-role/Research"


@pytest.mark.parametrize(
    ("people", "user"),
    [(BY_DEFAULT, RESEARCH), (People(session_roles=("Research",)), f"{RESEARCH}/ann")],
)
def test_the_users_limits_are_the_persons(people: People, user: str):
    rights = Rights(users=[User(name=user, limits={"a": {"HIGH": 0}, "b": {"HIGH": 0}})])

    def submit(submitter: str) -> Job:
        asked = classed("HIGH")
        return admit(asked, POOLS, submitter=submitter, now=7, rights=rights, people=people)

    with pytest.raises(ClassNotAllowed, match=f"user {user} may hold no slots"):
        submit(f"{RESEARCH}/ann")
    if people is BY_DEFAULT:
        with pytest.raises(ClassNotAllowed):
            submit(f"{RESEARCH}/another-session")
    else:
        assert submit(f"{RESEARCH}/bob").person == f"{RESEARCH}/bob"


@pytest.mark.parametrize(
    ("submission", "error", "field", "message"),
    [
        (asked("ml.g5"), InvalidRequest, "ResourceConfig.InstanceType", "ml.p4d, ml.p5"),
        (asked("ml.p5", 1, "a", "x"), InvalidRequest, "Tags", "names no pool of this queue: x"),
        (asked("ml.p5", 9), NeverFits, "ResourceConfig.InstanceCount", "a has 2, b has 8"),
        (asked("ml.p5", 3, "a"), NeverFits, "ResourceConfig.InstanceCount", "needs 3 slots"),
    ],
)
def test_a_refusal_names_the_field_and_the_valid_values(submission, error, field, message):
    with pytest.raises(error, match=message) as refused:
        admit(submission, POOLS, submitter="ann", now=7)
    assert refused.value.field == field


def test_the_number_of_named_pools_is_bounded():
    many = [pool(f"p{i}", "ml.p5", 1) for i in range(MAX_POOLS_PER_JOB + 1)]
    with pytest.raises(InvalidRequest, match="at most 16 pools"):
        admit(asked(), many, submitter="ann", now=7)


RIGHTS = Rights(
    users=[
        User(name="ann", limits={"a": {"HIGH": 2}, "b": {"HIGH": 3, "LOW": 1}}),
        User(name="cyd", groups=("staff",), limits={"a": {"LOW": 1}}),
    ],
    groups=[UserGroup(name="staff", limits={"a": {"LOW": 2, "HIGH": 1}, "b": {}})],
)


def classed(wanted: str | int, slots: int = 1, *pools: str) -> Submission:
    named = wanted if isinstance(wanted, str) else ""
    return replace(
        asked("ml.p5", slots, *pools),
        priority_class=named,
        priority=0 if isinstance(wanted, str) else wanted,
    )


@pytest.mark.parametrize(
    ("submission", "expected", "priority"),
    [
        (classed("HIGH"), "HIGH", 30),
        (classed("AUTO"), "AUTO", AUTO_VALUE),
        (classed(0), "", 0),
        (classed("HIGH", 3), "HIGH", 30),
        (classed("AUTO", 3), "AUTO", AUTO_VALUE),
        (classed("LOW", 1, "b"), "LOW", 0),
        (classed("NORMAL", 1, "c"), "NORMAL", 10),
        (classed(7, 1, "c"), "", 7),
    ],
)
def test_a_limited_users_job_gets_a_class(submission, expected, priority):
    job = admit(submission, POOLS, submitter="ann", now=7, rights=RIGHTS)
    assert (job.priority_class, job.priority, job.auto) == (expected, priority, expected == "AUTO")


@pytest.mark.parametrize(
    ("submission", "user", "error", "message"),
    [
        (classed("HIGH", 4), "ann", NeverFits, "more than user ann may hold in class HIGH"),
        (classed("LOW", 2, "b"), "ann", NeverFits, "1 in pool b"),
        (classed("AUTO", 4), "ann", NeverFits, "3 in pool b"),
        (classed("NORMAL"), "ann", ClassNotAllowed, "2 of HIGH in pool a, 3 of HIGH in pool b"),
        (classed("LOW", 1, "a"), "ann", ClassNotAllowed, "no slots in class LOW"),
        (classed(7), "ann", ClassNotAllowed, "no slots in priority 7"),
        (
            classed("GOLD"),
            "bob",
            InvalidRequest,
            "names no class: 'GOLD'; the classes are EXTREME_HIGH",
        ),
        (classed("LOW", 2, "a"), "cyd", NeverFits, "1 in pool a"),
        (classed("HIGH", 1, "b"), "cyd", ClassNotAllowed, "there are none at all"),
    ],
)
def test_a_job_beyond_the_users_limits_is_refused(submission, user, error, message):
    with pytest.raises(error, match=message):
        admit(submission, POOLS, submitter=user, now=7, rights=RIGHTS)


@pytest.mark.parametrize("name", ["HIGH", "high", "High"])
def test_a_class_may_be_named_in_any_case(name):
    job = admit(classed(name), POOLS, submitter="bob", now=7, rights=RIGHTS)
    assert (job.priority_class, job.auto) == ("HIGH", False)
    assert admit(classed("auto"), POOLS, submitter="bob", now=7, rights=RIGHTS).auto


def test_a_misspelt_class_or_pool_is_told_with_the_nearest():
    with pytest.raises(InvalidRequest, match=r"names no class: 'hihg'.*did you mean 'HIGH'\?"):
        admit(classed("hihg"), POOLS, submitter="bob", now=7, rights=RIGHTS)


def test_without_classes_and_users_a_priority_stays_a_number():
    job = admit(classed(30), POOLS, submitter="ann", now=7)
    assert (job.priority_class, job.priority, job.auto) == ("", 30, False)
    assert admit(classed(-1), POOLS, submitter="ann", now=7, rights=Rights()).auto is False
