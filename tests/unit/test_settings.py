"""Pools as text: both notations, and messages about malformed ones."""

# ruff: noqa: E501 - a row of a table stays one line

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from slotq_core.adapters.deployment_settings import (
    history_from_environment,
    operators_from_environment,
    parse_pools,
    plans_from_environment,
    pools_from_environment,
    pools_text,
    project_metrics_from_environment,
    roles_from_environment,
)
from slotq_core.errors import Misconfigured
from slotq_core.model.demand import Demand
from slotq_core.model.pools import CapacityKind, Pool, PoolState

P4, P5 = "ml.p4d.24xlarge", "ml.p5.48xlarge"
BIG = Pool(
    name="big",
    instance_type=P5,
    capacity=Demand(slots=2),
    reserve_after=600_000,
    min_runtime=300_000,
)
SMALL = Pool(name="small", instance_type=P4, capacity=Demand(slots=8))
EVERYTHING = Pool(
    name="all",
    instance_type=P5,
    capacity=Demand(slots=0, gpus=16, licences=2),
    properties=Demand({"mem_per_gpu_in_GiB": 80, "nvlink": 1}),
    consolidate=True,
    state=PoolState.PAUSED,
)
SHARED = replace(SMALL, pending_timeout=1_800_000, count_foreign=True)
PLAN = "arn:aws:sagemaker:us-east-1:123456789012:training-plan/june"
PLANNED = replace(SMALL, capacity_kind=CapacityKind.PLAN, plan_arn=PLAN)
SPOT = replace(SMALL, capacity_kind=CapacityKind.SPOT, spot_wait=3_600_000)
READS = [
    (f"small=8@{P4}", (SMALL,)),
    (f" small = 8 @ {P4} ", (SMALL,)),
    (f"big=2@{P5};reserve_after=600;min_runtime=300,small=8@{P4}", (BIG, SMALL)),
    (f"small=8@{P4},big=2@{P5}; min_runtime=300; reserve_after=600", (SMALL, BIG)),
    (f"small=8@{P4};pending_timeout=1800;count_foreign=true", (SHARED,)),
    (f"small=8@{P4};count_foreign=false", (SMALL,)),
    (f"small=8@{P4};capacity_kind=spot;spot_wait=3600", (SPOT,)),
    (f"small=8@{P4};capacity_kind=plan;plan_arn={PLAN}", (PLANNED,)),
    (
        f"all=0@{P5};consolidate=true;state=paused;resources=gpus:16+licences:2;properties=mem_per_gpu_in_GiB:80+nvlink:1",
        (EVERYTHING,),
    ),
    (
        json.dumps(
            [
                {
                    "name": "small",
                    "slots": 8,
                    "instance_type": P4,
                    "pending_timeout": 1800,
                    "count_foreign": True,
                }
            ]
        ),
        (SHARED,),
    ),
    (
        json.dumps(
            [
                {
                    "name": "big",
                    "slots": 2,
                    "instance_type": P5,
                    "reserve_after": 600,
                    "min_runtime": 300,
                },
                {"name": "small", "slots": 8, "instance_type": P4, "reserve_after": None},
            ]
        ),
        (BIG, SMALL),
    ),
]


@pytest.mark.parametrize(("text", "pools"), READS)
def test_pools_are_read_from_text(text: str, pools: tuple[Pool, ...]) -> None:
    assert parse_pools(text) == pools
    assert parse_pools(pools_text(pools)) == pools


@pytest.mark.parametrize(
    ("word", "grace"),
    [("true", 5_000), ("on", 5_000), ("off", 0), ("false", 0), ("30", 30_000), ("840", 840_000)],
)
def test_a_grace_is_a_number_or_a_switch(word: str, grace: int) -> None:
    assert parse_pools(f"p=1@{P4};suspend_grace={word}")[0].suspend_grace == grace


def test_a_missing_type_is_the_default_if_there_is_one() -> None:
    assert parse_pools("p=1", default_type=P4)[0].instance_type == P4
    assert parse_pools("p=1;reserve_after=0", default_type=P4)[0].reserve_after == 0


MISTAKES = [
    ("", "name at least one pool: NAME=SLOTS@INSTANCE_TYPE"),
    ("p", "'p' is not a pool: write NAME=SLOTS@INSTANCE_TYPE"),
    ("p=1", "pool 'p': instance_type must be one of SageMaker's"),
    (f"=1@{P4}", "pool name '': use 1 to 63 letters"),
    (f"a#b=1@{P4}", "pool name 'a#b': use 1 to 63 letters"),
    (f"p=10001@{P4}", "pool 'p': slots must be a whole number from 0 to 10000, not 10001"),
    (f"p=two@{P4}", "pool 'p': slots must be a whole number from 0 to 10000, not 'two'"),
    (f"p=1@{P4};state=open", "pool 'p': state must be one of active, paused, drained, not 'open'"),
    (f"p=1@{P4};time_slice=0", "pool 'p': time_slice must be a whole number from 1 to 2419200, not 0"),
    (f"p=1@{P4};suspend_grace=841", "pool 'p': suspend_grace must be a whole number from 0 to 840, not 841"),
    (f"p=1@{P4};suspend_grace=yes", "pool 'p': suspend_grace must be a whole number from 0 to 840, not 'yes'"),
    (f"p=1@{P4};pending_timeout=0", "pool 'p': pending_timeout must be a whole number from 1 to 2419200, not 0"),
    (f"p=1@{P4};resources=gpus", "pool 'p': resources.gpus must be a whole number from 0 to 1000000, not ''"),
    (f"p=1@{P4};properties=mem:0", "pool 'p': properties.mem must be a whole number from 1 to 1000000, not 0"),
    (f"p=1@{P4};properties=mem:8,q=1@{P4};resources=mem:8", "pool 'p': 'mem' is a resource of pool 'q'"),
    (f"p=1@{P4};resources=slots:2", "pool 'p': resources must be named by 1 to 31 of a-z"),
    (f"p=1@{P4};resources=", "pool 'p': resources must be named by 1 to 31 of a-z"),
    ('[{"name": "p", "slots": 1, "instance_type": "ml.g5.xlarge", "resources": [8]}]', "pool 'p': resources must be amounts by name"),
    (f"p=-1@{P4}", "pool 'p': slots must be"),
    ("p=1@p5", "pool 'p': instance_type must be one of SageMaker's, e.g. ml.p4d.24xlarge, not 'p5'"),
    (f"p=1@{P4};colour=3", "pool 'p': 'colour=3' is not one of reserve_after=SECONDS, min_runtime="),
    (f"p=1@{P4};reserve_after=-3", "pool 'p': reserve_after must be a whole number from 0 to 2419200"),
    (f"p=1@{P4};min_runtime=1;min_runtime=2", "'min_runtime=2' is not one of"),
    (f"p=1@{P4};colour=3", "stall_after=SECONDS, count_foreign=true|false"),
    (f"p=1@{P4};pending_timeout=0", "pool 'p': pending_timeout must be a whole number from 1 to 2419200, not 0"),
    (f"p=1@{P4};capacity_kind=cheap", "pool 'p': capacity_kind must be one of on_demand, spot, plan, not 'cheap'"),
    (f"p=1@{P4};spot_wait=-1", "pool 'p': spot_wait must be a whole number from 0 to 2419200, not '-1'"),
    (f"p=1@{P4};capacity_kind=plan", "pool 'p': capacity_kind plan needs the plan: give plan_arn"),
    (f"p=1@{P4};plan_arn=june", "pool 'p': plan_arn must be the ARN of a training plan"),
    (f"p=1@{P4};capacity_kind=spot;nodes=gpus:8", "pool 'p': a spot pool has no nodes"),
    (f"p=1@{P4};count_foreign=yes", "pool 'p': count_foreign must be true or false, not 'yes'"),
    ('[{"name": "p", "slots": 1, "instance_type": "ml.g5.xlarge", "count_foreign": 1}]', "count_foreign must be true or false, not 1"),
    (f"p=1@{P4},p=2@{P4}", "the pool 'p' occurs more than once"),
    ("[1]", "the pools must be a JSON list of objects"),
    ("{}", "the pools must be a JSON list of objects"),
    ("[{", "the pools are not JSON"),
    ("[]", "name at least one pool"),
    ('[{"name": "p", "slots": true, "instance_type": "ml.g5.xlarge"}]', "pool 'p': slots must be a whole number"),
    ('[{"name": "p", "slots": 1.5, "instance_type": "ml.g5.xlarge"}]', "pool 'p': slots must be a whole number"),
    ('[{"name": "p", "slot": 1}]', "pool 'p': 'slot' is not one of name, slots, instance_type, reserve_after"),
    ('[{"slots": 1}]', "pool name None"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), MISTAKES)
def test_malformed_pools_are_refused(text: str, message: str) -> None:
    with pytest.raises(Misconfigured) as raised:
        parse_pools(text)
    assert message in str(raised.value)


def test_pools_are_read_from_the_environment() -> None:
    assert pools_from_environment({"SLOTQ_POOLS": f"small=8@{P4}"}) == (SMALL,)
    with pytest.raises(Misconfigured, match="SLOTQ_POOLS is not set"):
        pools_from_environment({})


def test_the_retention_of_the_history_is_read() -> None:
    month = history_from_environment({})
    assert month == history_from_environment({"SLOTQ_HISTORY_DAYS": ""}) == 30 * 86_400_000
    assert history_from_environment({"SLOTQ_HISTORY_DAYS": "365"}) == 365 * 86_400_000
    for odd in ("0", "366", "a month", "-1", "1.5"):
        with pytest.raises(Misconfigured, match="whole number of days from 1 to 365"):
            history_from_environment({"SLOTQ_HISTORY_DAYS": odd})


def test_the_number_of_projects_with_metrics_is_read() -> None:
    assert project_metrics_from_environment({}) == 0
    assert project_metrics_from_environment({"SLOTQ_PROJECT_METRICS": "50"}) == 50
    for odd in ("51", "-1", "all", "1.5"):
        with pytest.raises(Misconfigured, match="whole number from 0 to 50"):
            project_metrics_from_environment({"SLOTQ_PROJECT_METRICS": odd})


PLAN = "arn:aws:sagemaker:us-east-1:123456789012:training-plan/p5"


def test_training_plans_can_be_any_none_or_named_ones():
    assert plans_from_environment({}).allowed is None
    assert plans_from_environment({"SLOTQ_TRAINING_PLANS": " "}).allowed == ()
    two = {"SLOTQ_TRAINING_PLANS": f"{PLAN}, {PLAN}-2"}
    assert plans_from_environment(two).allowed == (PLAN, f"{PLAN}-2")
    for odd in ("p5", f"{PLAN}*", "arn:aws:sagemaker:us-east-1:123456789012:training-job/a"):
        with pytest.raises(Misconfigured, match="is not the ARN of a training plan"):
            plans_from_environment({"SLOTQ_TRAINING_PLANS": odd})


RESEARCH, SHARED_ROLE = (
    f"arn:aws:iam::123456789012:role/{name}" for name in ("research", "shared")
)
ADA = "arn:aws:sts::123456789012:assumed-role/Research/*"


def test_roles_and_the_callers_who_may_use_them_are_read():
    assert roles_from_environment({}).allowed is None
    read = roles_from_environment(
        {
            "SLOTQ_EXECUTION_ROLES": f"{RESEARCH}, {SHARED_ROLE}",
            "SLOTQ_ROLE_USERS": f"{RESEARCH}={ADA},{RESEARCH}=arn:aws:iam::123456789012:user/bob",
        }
    )
    assert read.allowed == (RESEARCH, SHARED_ROLE)
    assert read.users == {RESEARCH: (ADA, "arn:aws:iam::123456789012:user/bob")}


@pytest.mark.parametrize(
    ("roles", "users", "told"),
    [
        ("research", "", "'research' is not the ARN of a role"),
        ("arn:aws:iam::123456789012:role/*", "", "is not the ARN of a role"),
        (RESEARCH, f"{SHARED_ROLE}={ADA}", "with a role of SLOTQ_EXECUTION_ROLES"),
        (RESEARCH, f"{RESEARCH}=*", "is not ROLE_ARN=CALLER_ARN"),
        ("", f"{RESEARCH}={ADA}", "with a role of SLOTQ_EXECUTION_ROLES"),
    ],
)
def test_a_malformed_role_is_refused(roles, users, told):
    environment = {"SLOTQ_EXECUTION_ROLES": roles, "SLOTQ_ROLE_USERS": users}
    with pytest.raises(Misconfigured, match=told):
        roles_from_environment(environment)


def test_operators_are_patterns_of_callers():
    assert operators_from_environment({}) == ()
    text = "arn:aws:iam::123456789012:role/Ops*, arn:aws:iam::123456789012:user/root-2,"
    assert operators_from_environment({"SLOTQ_OPERATORS": text}) == (
        "arn:aws:iam::123456789012:role/Ops*",
        "arn:aws:iam::123456789012:user/root-2",
    )


@pytest.mark.parametrize("text", ["*", "everyone", "arn:*", "arn:aws:*/*", "Operators", "a*"])
def test_an_operator_is_nobody_in_particular_by_accident(text):
    with pytest.raises(Misconfigured, match="does not name a caller"):
        operators_from_environment({"SLOTQ_OPERATORS": f"arn:aws:iam::1:role/a,{text}"})
