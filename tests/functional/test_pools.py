"""Changing pools through the real handler: rights, refusals and the record."""

import json
from typing import Any

import pytest

import app
from tests.functional.account import Account, add_job, forget, sample
from tests.functional.sharing import request

OPERATOR = sample("set-pool")["requestContext"]["identity"]["userArn"]


def set_pool(body: Any, name: str = "main") -> dict[str, Any]:
    event = sample("set-pool")
    return {**event, "path": f"/pools/{name}", "body": json.dumps(body)}


def remove_pool(name: str, **query: str) -> dict[str, Any]:
    event = sample("remove-pool")
    multiple = {key: [value] for key, value in query.items()}
    return {
        **event,
        "path": f"/pools/{name}",
        "queryStringParameters": query or None,
        "multiValueQueryStringParameters": multiple or None,
    }


def changes(**query: str) -> dict[str, Any]:
    event = sample("list-changes")
    multiple = {key: [value] for key, value in query.items()}
    return {**event, "queryStringParameters": query, "multiValueQueryStringParameters": multiple}


def test_jobs_start_in_a_pool_that_grows(account: Account):
    for number in range(3):
        account.call(add_job(TrainingJobName=f"job{number}"))
    account.settle()
    assert account.state("job2") == "pending"
    status, told = account.call("set-pool")
    assert (status, told["revision"]) == (200, 2)
    (main,) = told["pools"]
    assert (main["capacity"], main["used"]) == ({"slots": 4}, {"slots": 2})
    assert (main["settings"]["slots"], main["settings"]["reserve_after"]) == (4, 600)
    account.settle()
    assert account.state("job2") == "running"


@pytest.mark.parametrize(("seconds", "warns"), [(3600, False), (3601, True), (21_600, True)])
def test_setting_a_pool_warns_of_what_the_guide_does_not_know(account: Account, seconds, warns):
    status, told = account.call(set_pool({"keep_warm": seconds}))
    assert (status, len(told["warnings"])) == (200, warns)
    if warns:
        assert "SageMaker's guide knows 3,600 s at most" in told["warnings"][0]
    assert account.call("list-pools")[1]["warnings"] == []


@pytest.mark.parametrize("body", [{"forget_limit": True}, {"slots": 2}])
def test_an_operator_makes_the_queue_forget_a_learned_limit(account: Account, body):
    """Setting the slots to what they are does so too."""
    account.plane.knobs.limits = {"ml.p4d.24xlarge": 1}
    for name in ("job1", "job2"):
        account.call(add_job(TrainingJobName=name))
    account.settle()
    _, told = account.call("list-pools")
    assert told["pools"][0]["health"]["learned"] == 1
    account.plane.knobs.limits = {}
    status, told = account.call(set_pool(body))
    health = told["pools"][0]["health"]
    assert (status, health["learned"], health["errors"]) == (200, None, 0)
    account.settle()
    assert account.state("job2") == "running"
    revision = told["revision"]
    status, told = account.call(set_pool({"forget_limit": False}))
    assert (status, told["revision"]) == (200, revision), "nothing to do"


@pytest.mark.parametrize(("given", "grace"), [(True, 5), (30, 30), (False, 0), (None, 0)])
def test_a_grace_is_a_number_or_a_switch(account: Account, given, grace):
    account.call(set_pool({"suspend_grace": 7}))
    status, told = account.call(set_pool({"suspend_grace": given}))
    assert (status, told["pools"][0]["settings"]["suspend_grace"]) == (200, grace)


def test_jobs_ask_for_what_a_pool_is_like_and_use_none_of_it_up(account: Account):
    like = {"disk_in_GiB": 16}
    settings = {"slots": 2, "instance_type": "ml.p4d.24xlarge"}
    account.call(set_pool({"properties": {"disk_in_GiB": 8}}))
    told = account.call(
        set_pool({**settings, "properties": like, "resources": {"gpus": 16}}, "big")
    )
    assert told[1]["pools"][1]["settings"]["properties"] == like
    tags = [{"Key": "slotq:demand", "Value": "disk_in_GiB=16,gpus=8"}]
    for name in ("job1", "job2"):
        status, job = account.call(add_job(TrainingJobName=name, Tags=tags))
        assert (status, job["pools"], job["requires"]) == (202, ["big"], like)
        assert job["demand"] == {"slots": 1, "gpus": 8}
    account.settle()
    assert (account.state("job1"), account.state("job2")) == ("running", "running")
    account.submit("job3", Tags=tags)
    status, job = account.call({**sample("get-job"), "path": "/jobs/job3"})
    assert (status, job["reason"]["code"]) == (200, "no_free_slots")
    tags = [{"Key": "slotq:demand", "Value": "disk_in_GiB=32"}]
    status, error = account.call(add_job(TrainingJobName="never", Tags=tags))
    assert (status, error["code"], error["field"]) == (400, "never_fits", "Tags")
    assert "at least 32, and the most that its pools have is 16 (pool big)" in error["message"]


def test_each_change_is_listed_with_its_signer(account: Account):
    account.call("set-pool")
    account.call(set_pool({"slots": 1, "instance_type": "ml.g5.xlarge"}, "small"))
    assert account.call(remove_pool("main"))[0] == 200
    status, told = account.call("list-changes")
    removed, made, resized, first = told["changes"]
    assert status == 200
    assert [change["who"] for change in told["changes"]] == [OPERATOR] * 3 + ["SLOTQ_POOLS"]
    assert first["at"] == "2026-11-20T10:30:00.000Z"
    (pool,) = resized["pools"]
    assert (pool["name"], pool["before"]["slots"], pool["after"]["slots"]) == ("main", 2, 4)
    assert (made["pools"][0]["name"], made["pools"][0]["before"]) == ("small", None)
    assert (removed["pools"][0]["after"], removed["order"]) == (None, ["small"])
    latest = account.call(changes(limit="1"))[1]["changes"]
    assert [change["revision"] for change in latest] == [4]


def test_an_unsigned_caller_changes_nothing(account: Account):
    account.call("list-pools")
    for event in (sample("set-pool"), sample("remove-pool")):
        event["requestContext"]["identity"]["userArn"] = None
        assert account.call(event)[0] == 403
    assert account.call("list-pools")[1]["revision"] == 1


@pytest.mark.parametrize(
    ("body", "field", "said"),
    [
        ([], "", "the pool's settings"),
        ({}, "", "say what to change: slots"),
        ({"revision": 1}, "", "say what to change"),
        ({"slots": -1}, "slots", "greater than or equal to 0"),
        ({"slots": 10_001}, "slots", "10000"),
        ({"slots": "4"}, "slots", "integer"),
        ({"slots": None}, "slots", "integer"),
        ({"slotz": 4}, "slotz", "not permitted"),
        ({"capacity": 4}, "capacity", "not permitted"),
        ({"state": "open"}, "state", "active"),
        ({"time_slice": 0}, "time_slice", "greater than or equal to 1"),
        ({"suspend_grace": 841}, "suspend_grace", "less than or equal to 840"),
        ({"suspend_grace": "on"}, "suspend_grace", "integer"),
        ({"instance_type": "big"}, "instance_type", "ml.p4d.24xlarge"),
        ({"resources": {"slots": 1}}, "resources", "slots have their own"),
        ({"resources": {"gpus": -8}}, "resources.gpus", "from 0"),
        ({"properties": {"slots": 1}}, "properties", "slots have their own"),
        ({"properties": {"mem": 0}}, "properties.mem", "from 1"),
        ({"properties": {"mem": 8}, "resources": {"mem": 8}}, "properties", "is a resource of"),
        ({"consolidate": "yes"}, "consolidate", "boolean"),
    ],
)
def test_a_malformed_change_changes_nothing(account: Account, body, field, said):
    account.call("list-pools")
    before = account.items()
    status, error = account.call(set_pool(body))
    assert (status, error["code"], error["field"]) == (400, "invalid_request", field)
    assert said in error["message"]
    assert account.items() == before


def test_refusals_have_their_codes(account: Account):
    account.call("add-job")
    account.settle()
    account.call(set_pool({"slots": 1, "instance_type": "ml.g5.xlarge"}, "small"))
    account.call(set_pool({"slots": 0, "instance_type": "ml.g5.xlarge"}, "spare"))
    tags = [{"Key": "slotq:pools", "Value": "small"}]
    account.call(add_job(TrainingJobName="other", Tags=tags))
    for event, status, code, said in (
        (
            set_pool({"slots": 1}, "nowhere"),
            404,
            "no_such_pool",
            "the pools are main, small, spare",
        ),
        (remove_pool("nowhere"), 404, "no_such_pool", "the pools are main, small, spare"),
        (remove_pool("main"), 409, "pool_in_use", "while 1 of its slots"),
        (remove_pool("small"), 409, "pool_in_use", "for it alone (other)"),
        (remove_pool("spare", revision="1"), 409, "outdated", "now at revision 3"),
        (set_pool({"slots": 9, "revision": 1}), 409, "outdated", OPERATOR),
        (remove_pool("small", revision="x"), 400, "invalid_request", "revision takes an integer"),
        (remove_pool("small", force="1"), 400, "invalid_request", "no parameter 'force' here"),
        (changes(limit="101"), 400, "invalid_request", "limit takes an integer from 1 to 100"),
    ):
        told = account.call(event)
        assert (told[0], told[1]["code"]) == (status, code), event["path"]
        assert said in told[1]["message"]
    assert len(account.call("list-pools")[1]["pools"]) == 3


def test_a_drained_pool_can_be_removed_once_empty(account: Account):
    account.call("add-job")
    account.settle()
    account.call(set_pool({"slots": 1, "instance_type": "ml.g5.xlarge"}, "small"))
    status, told = account.call(set_pool({"state": "drained"}))
    assert (status, told["pools"][0]["settings"]["state"]) == (200, "drained")
    account.call(add_job(TrainingJobName="late"))
    account.settle()
    assert (account.state("job1"), account.state("late")) == ("running", "pending")
    account.call("cancel-job")
    late = sample("cancel-job")
    late["path"] = "/jobs/late"
    account.call(late)
    account.clock.set(account.clock.now() + 600_000)
    account.settle()
    assert account.call(remove_pool("main"))[0] == 200


def test_an_operators_change_outlives_a_stack_update(account: Account, monkeypatch, output):
    account.call("set-pool")
    forget()
    assert account.call("list-pools")[1]["pools"][0]["capacity"] == {"slots": 4}
    assert "a setting was not taken in" not in output()
    monkeypatch.setenv("SLOTQ_POOLS", "main=3@ml.p4d.24xlarge")
    forget()
    account.send("tick")
    assert account.call("list-pools")[1]["pools"][0]["capacity"] == {"slots": 4}
    written = output()
    assert "a setting was not taken in" in written
    assert '"PoolsRefused":[1.0]' in written.replace(" ", "")


def test_the_views_show_the_record_and_change_nothing(account: Account, monkeypatch):
    account.call("set-pool")
    monkeypatch.setenv("SLOTQ_SERVES", "views")
    forget()
    assert len(account.call("list-changes")[1]["changes"]) == 2
    for event in ("set-pool", "remove-pool"):
        with pytest.raises(app.Failed, match="NotUnderstood"):
            account.send(event)


def test_an_operator_keeps_nodes_and_everybody_sees_them(account: Account):
    nodes = {"keep": 900, "share": "pool", "vpc": {"subnets": ["a"], "security_groups": ["b"]}}
    status, told = account.call(set_pool({"nodes": nodes}))
    assert status == 200, told
    settings = told["pools"][0]["settings"]["nodes"]
    assert {key: settings[key] for key in nodes} == nodes
    assert settings["gpus"] == 8
    assert account.call(set_pool({"slots": 3}))[1]["pools"][0]["settings"]["nodes"] == settings
    status, told = account.call(request("GET", "/nodes", by=OPERATOR))
    assert (status, told) == (200, {"version": 1, "nodes": []})
    assert account.call(set_pool({"nodes": None}))[1]["pools"][0]["settings"]["nodes"] is None


@pytest.mark.parametrize(
    ("nodes", "field"),
    [
        ({"keeps": 1}, "nodes.keeps"),
        ({"keep": -1}, "nodes.keep"),
        ({"gpus": 65}, "nodes.gpus"),
        ({"gpus": 4}, "nodes.gpus"),
        ({"gpu_ids": ["0"]}, "nodes.gpu_ids"),
        ({"role": "Train"}, "nodes.role"),
        ({"vpc": {"subnets": ["a"]}}, "nodes.vpc.security_groups"),
    ],
)
def test_wrong_settings_of_nodes_are_named(account: Account, nodes, field):
    status, told = account.call(set_pool({"nodes": nodes}))
    assert (status, told["field"]) == (400, field)
