"""Jobs over several pools at once, through the real handler."""

import json
from typing import Any

import pytest

from tests.functional.account import Account, add_job, sample

MAIN, SMALL, OTHER = "ml.p4d.24xlarge", "ml.m5.large", "ml.g5.xlarge"
HALF_AN_HOUR = 1_800_000


def with_pool(account: Account, name: str, instance_type: str, slots: int) -> None:
    event = {**sample("set-pool"), "path": f"/pools/{name}"}
    event["body"] = json.dumps({"instance_type": instance_type, "slots": slots})
    status, told = account.call(event)
    assert status == 200, told


def wide(account: Account, name: str = "wide", **tags: str) -> tuple[int, dict[str, Any]]:
    """One instance of the main pool's type, and two small ones."""
    groups = [
        {"InstanceGroupName": kind[3:5], "InstanceType": kind, "InstanceCount": number}
        for kind, number in ((MAIN, 1), (SMALL, 2))
    ]
    given = [{"Key": f"slotq:{key}", "Value": value} for key, value in tags.items()]
    resources = {"InstanceGroups": groups, "VolumeSizeInGB": 1}
    return account.call(add_job(TrainingJobName=name, ResourceConfig=resources, Tags=given))


def test_groups_of_several_types_start_in_several_pools_at_once(account: Account):
    with_pool(account, "small", SMALL, 2)
    status, told = wide(account)
    assert status == 202, told
    account.settle()
    told = account.job("wide")
    assert told["parts"] == {"main": {"slots": 1}, "small": {"slots": 2}}
    assert (told["pools"], told["demand"]) == (["main", "small"], {"slots": 3})
    (training,) = [each for each in account.plane.jobs() if each.name == "wide"]
    assert training.instances == {MAIN: 1, SMALL: 2}
    pools = account.call(sample("list-pools"))[1]["pools"]
    assert {pool["name"]: pool["used"]["slots"] for pool in pools} == {"main": 1, "small": 2}


def test_what_a_job_uses_counts_in_each_of_its_pools(account: Account):
    """With the slots and the type of instance there, while it runs and once it has ended; as one
    job."""
    with_pool(account, "small", SMALL, 2)
    wide(account)
    account.settle()
    account.pass_time(HALF_AN_HOUR)

    def used() -> dict[str, tuple[str, float, float, int, int]]:
        rows = account.asked("get-usage", by="pool")[1]["rows"]
        figures = ("instance_type", "slot_seconds", "instance_seconds", "jobs", "attempts")
        return {row["group"]["pool"]: tuple(row[name] for name in figures) for row in rows}

    expected = {"main": (MAIN, 1800, 1800, 1, 1), "small": (SMALL, 3600, 3600, 0, 0)}
    assert used() == expected
    account.completes("wide")
    account.pass_time(HALF_AN_HOUR)
    assert used() == expected


def test_the_timeline_shows_a_job_in_each_of_its_pools(account: Account):
    with_pool(account, "small", SMALL, 2)
    wide(account)
    account.settle()
    account.pass_time(HALF_AN_HOUR)

    def parts(**query: str) -> list[dict[str, int]]:
        attempts = account.asked("list-attempts", **query)[1]["attempts"]
        return [each["parts"] for each in attempts]

    both = {"main": 1, "small": 2}
    assert parts(pool="small") == parts(pool="main") == parts() == [both]
    account.completes("wide")
    account.pass_time(HALF_AN_HOUR)
    assert parts(pool="small") == parts() == [both]
    assert parts(pool="other") == []


def test_a_pool_is_named_where_several_have_the_type(account: Account):
    with_pool(account, "small", SMALL, 2)
    with_pool(account, "spare", SMALL, 4)
    status, told = wide(account)
    assert (status, told["field"]) == (400, "Tags")
    assert "several pools have instance type ml.m5.large (small, spare)" in told["message"]
    assert wide(account, pools="spare,main")[0] == 202
    assert account.job("wide")["pools"] == ["main", "spare"]


@pytest.mark.parametrize(
    ("tags", "words"),
    [
        ({}, "needs instances of ml.m5.large, and none of its pools has that type"),
        ({"pools": "main,other"}, "needs instances of ml.m5.large, and none of its pools"),
        ({"demand": "gpus=8"}, "leave out the tag 'slotq:demand'"),
    ],
)
def test_a_part_that_no_pool_can_run_is_refused(account: Account, tags, words):
    with_pool(account, "other", OTHER, 2)
    status, told = wide(account, **tags)
    assert (status, words in told["message"]) == (400, True), told


def test_a_pool_without_a_part_is_refused(account: Account):
    with_pool(account, "small", SMALL, 2)
    with_pool(account, "other", OTHER, 2)
    status, told = wide(account, pools="main,small,other")
    assert (status, told["field"]) == (400, "Tags")
    assert "names other" in told["message"]


def test_a_part_larger_than_its_pool_is_refused(account: Account):
    with_pool(account, "small", SMALL, 1)
    status, told = wide(account)
    assert (status, told["code"]) == (400, "never_fits"), told


def test_the_pools_of_a_job_in_parts_stay_while_its_priority_changes(account: Account):
    with_pool(account, "small", SMALL, 2)
    wide(account, "first")
    account.settle()
    wide(account)
    with_pool(account, "spare", SMALL, 2)
    event = {**sample("amend-job"), "path": "/jobs/wide"}
    status, told = account.call({**event, "body": json.dumps({"tags": {"priority": "7"}})})
    assert (status, told["priority"], told["pools"]) == (200, 7, ["main", "small"]), told
    status, told = account.call(
        {**event, "body": json.dumps({"tags": {"slotq:pools": "main,spare"}})}
    )
    assert (status, told["field"]) == (400, "Tags")
    assert "stay as submitted" in told["message"]
