"""GPUs, vCPUs and memory of instances, through the real handler: no pool declares them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.functional.account import Account, add_job, sample
from tests.functional.test_config import put
from tests.functional.test_pools import set_pool

P4 = "ml.p4d.24xlarge"
UNKNOWN = "ml.p6e-gb200.36xlarge"
"""SageMaker has the type, and nothing says what it contains."""


def submit(account: Account, demand: str, **changes: Any) -> tuple[int, dict[str, Any]]:
    tags = [{"Key": "slotq:demand", "Value": demand}]
    return account.call(add_job(Tags=tags, **changes))


def instances(number: int) -> dict[str, Any]:
    return {"InstanceType": P4, "InstanceCount": number, "VolumeSizeInGB": 1}


def job_item(account: Account, name: str) -> dict[str, Any]:
    found = [item for item in account.items() if item["pk"]["S"] == f"JOB#{name}"]
    return found[0]


@pytest.mark.parametrize(
    ("demand", "requires"),
    [
        ("gpus=8", {"gpus": 8}),
        ("num_gpus=1,mem_per_gpu_in_GiB=1", {"gpus": 1, "mem_per_gpu_in_GiB": 1}),
        ("vcpus=96,memory_gib=1152", {"vcpus": 96, "memory_gib": 1152}),
        ("mem_per_gpu_in_GiB=40G", {"mem_per_gpu_in_GiB": 40}),
    ],
)
def test_a_job_asks_for_what_its_instances_contain(account: Account, demand, requires):
    status, job = submit(account, demand)
    assert (status, job["demand"], job["requires"]) == (202, {"slots": 1}, requires)
    account.settle()
    assert account.state("job1") == "running"
    (main,) = account.call("list-pools")[1]["pools"]
    assert main["used"] == {"slots": 1}, "the ledger counts slots only"


@pytest.mark.parametrize(
    ("demand", "code", "said"),
    [
        (
            "gpus=9",
            "never_fits",
            f"its 1 instance contains at most 8 (pool main, {P4}): that takes",
        ),
        ("vcpus=97", "never_fits", "the job needs 97 vcpus"),
        ("mem_per_gpu_in_GiB=41", "never_fits", "the most that its pools have is 40 (pool main)"),
        ("gpus=0", "invalid_request", "whole numbers from 1 to"),
        ("gpus=-1", "invalid_request", "whole numbers from 1 to"),
        ("gpus=8G", "invalid_request", "whole numbers from 1 to"),
        ("gpus=1,gpus=2", "invalid_request", "different names"),
        ("gpus=1,num_gpus=2", "invalid_request", "for gpus and for num_gpus"),
        ("gpus=1000000", "never_fits", "that takes 125000 instances"),
        ("GPUS=1", "never_fits", "the job needs 1 GPUS, more than any of its pools"),
    ],
)
def test_hostile_demands_are_refused(account: Account, demand, code, said):
    status, error = submit(account, demand)
    assert (status, error["code"]) == (400, code), error
    assert said in error["message"]
    assert account.call("list-jobs")[1]["jobs"] == []


def test_more_instances_contain_more(account: Account):
    status, job = submit(account, "gpus=16", ResourceConfig=instances(2))
    assert (status, job["demand"], job["requires"]) == (202, {"slots": 2}, {"gpus": 8})


def test_a_type_without_gpus_and_a_type_that_nobody_knows(account: Account):
    account.call(set_pool({"instance_type": "ml.m5.large"}))
    config = {**instances(1), "InstanceType": "ml.m5.large"}
    status, error = submit(account, "gpus=1", ResourceConfig=config)
    assert (status, error["code"]) == (400, "never_fits")
    assert "1 gpus, and no instance of its pools contains any" in error["message"]
    account.call(set_pool({"instance_type": UNKNOWN}))
    config = {**instances(1), "InstanceType": UNKNOWN}
    status, error = submit(account, "gpus=1", ResourceConfig=config)
    assert (status, error["code"]) == (400, "never_fits")
    assert "`slotq pools set main --resource gpus=N`" in error["message"]
    account.call(set_pool({"resources": {"gpus": 4}}))
    status, job = submit(account, "num_gpus=1", ResourceConfig=config)
    assert (status, job["demand"]) == (202, {"slots": 1, "gpus": 1})


def test_a_job_that_does_not_ask_is_stored_as_ever(account: Account):
    """The one attribute more is of the job that asks."""
    account.submit("plain")
    submit(account, "gpus=8", TrainingJobName="asking")
    plain, asking = job_item(account, "plain"), job_item(account, "asking")
    assert "requires" not in plain
    assert asking["requires"] == {"M": {"gpus": {"N": "8"}}}
    assert plain["demand"] == asking["demand"]


@pytest.mark.parametrize(
    ("settings", "field", "said"),
    [
        ({"resources": {"gpus": 12}}, "resources", "declares 12 gpus, but its 2 instances of"),
        ({"resources": {"num_gpus": 16}}, "resources", "num_gpus, which are gpus here"),
        ({"properties": {"mem_per_gpu_in_GiB": 16}}, "properties", "each GPU of"),
        ({"properties": {"gpus": 8}}, "properties", "gpus are a resource"),
    ],
)
def test_a_pool_that_contradicts_its_instances_is_refused(account: Account, settings, field, said):
    status, error = account.call(set_pool(settings))
    assert (status, error["field"]) == (400, field), error
    assert said in error["message"]
    pools = [{"name": "main", "capacity": {"slots": 2, "gpus": 12}, "instance_type": P4}]
    status, error = account.call(put({"pools": pools}))
    assert (status, "contain 16: leave gpus out, or declare 16" in error["message"]) == (400, True)


def test_the_right_number_may_be_declared_and_follows_the_slots(account: Account):
    assert account.call(set_pool({"resources": {"gpus": 16}}))[0] == 200
    submit(account, "gpus=8")
    account.settle()
    status, told = account.call(set_pool({"slots": 3}))
    (main,) = told["pools"]
    assert (status, main["capacity"]) == (200, {"slots": 3, "gpus": 24})
    assert main["used"] == {"slots": 1, "gpus": 8}
    assert main["settings"]["resources"] == {}
    account.completes("job1")
    (main,) = account.call("list-pools")[1]["pools"]
    assert main["used"] == {"slots": 0}


def test_quotas_count_the_same_word(account: Account):
    everybody = "arn:aws:sts::123456789012:assumed-role/*"
    projects = [{"name": "vision", "quota": {"gpus": 8}, "members": [everybody]}]
    pool = {"name": "main", "capacity": 2, "instance_type": P4}
    operators = ["arn:aws:sts::123456789012:assumed-role/Operator/*"]
    document = {"pools": [pool], "projects": projects, "operators": operators}
    assert account.call(put(document))[0] == 200
    tags = [
        {"Key": "slotq:demand", "Value": "num_gpus=1"},
        {"Key": "slotq:project", "Value": "vision"},
    ]
    status, job = account.call(add_job(Tags=tags))
    assert status == 202, job
    assert (status, job["demand"]) == (202, {"slots": 1, "gpus": 8}), "it takes its instance whole"
    assert job["requires"] == {}


def test_a_job_does_not_move_to_pools_that_do_not_count_what_it_takes(account: Account):
    account.call(set_pool({"resources": {"gpus": 16}}))
    account.call(set_pool({"slots": 1, "instance_type": P4}, "other"))
    pools = {"Key": "slotq:pools", "Value": "main"}
    status, job = account.call(add_job(Tags=[{"Key": "slotq:demand", "Value": "gpus=8"}, pools]))
    assert (status, job["demand"]) == (202, {"slots": 1, "gpus": 8})
    change = sample("amend-job")
    body = {"tags": {"slotq:pools": "other"}}
    status, error = account.call({**change, "path": "/jobs/job1", "body": json.dumps(body)})
    assert (status, error["code"]) == (400, "invalid_request"), error
    assert "takes gpus from its pools, and not all of the new pools count them" in error["message"]
