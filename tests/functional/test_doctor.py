"""The doctor and the pools through the real handler: what people see of the queue's health."""

import json
from typing import Any

import pytest

from tests.functional.account import HOUR, TABLE, Account, add_job, forget, sample

MINUTE = 60_000


def drifted(account: Account) -> None:
    """job1 has ended unnoticed, and an orphan of ours runs."""
    account.call("add-job")
    account.settle()
    account.plane.knobs.lose_events = 1000
    later(account, HOUR)
    tags = [{"Key": "slotq:queue", "Value": TABLE}]
    stray = json.loads(add_job(TrainingJobName="stray", Tags=tags)["body"])
    account.plane.handle("CreateTrainingJob", stray)
    account.plane.advance()


def later(account: Account, milliseconds: int) -> None:
    account.clock.set(account.clock.now() + milliseconds)
    account.plane.advance()


def findings(answer: tuple[int, dict[str, Any]]) -> list[tuple[str, str, bool]]:
    status, body = answer
    assert (status, body["version"]) == (200, 1)
    return [(it["kind"], it["subject"], it["mended"]) for it in body["findings"]]


def test_a_healthy_queue_has_no_findings(account: Account):
    account.call("add-job")
    account.settle()
    assert findings(account.call("examine")) == []
    assert findings(account.call("mend")) == []


def test_the_doctor_shows_and_repairs_findings(account: Account):
    drifted(account)
    shown = [("ended_unseen", "job1", False), ("orphan", "stray", False)]
    assert findings(account.call("examine")) == shown
    assert account.state("job1") == "running"
    assert findings(account.call("mend")) == [("ended_unseen", "job1", True), *shown[1:]]
    assert account.state("job1") == "completed"
    assert account.lambda_.events, "what came free is for those who wait"
    later(account, MINUTE)
    assert findings(account.call("mend")) == [("orphan", "stray", True)]
    later(account, 0)
    assert findings(account.call("examine")) == []


def test_the_doctor_leaves_an_unconfirmed_start_to_the_pass(account: Account):
    """The door's role, with which the doctor works, may not start training jobs."""
    account.call("add-job")
    account.plane.knobs.lose_answers = 1
    account.send("pass")
    later(account, MINUTE)
    creates = account.plane.calls["CreateTrainingJob"]
    status, body = account.call("mend")
    assert findings((status, body)) == [("stale_intent", "job1", False)]
    assert body["findings"][0]["text"].endswith("the next pass repeats it")
    assert account.plane.calls["CreateTrainingJob"] == creates
    account.settle()
    later(account, MINUTE)
    assert findings(account.call("mend")) == []
    assert account.state("job1") == "running"


def test_an_unreachable_sagemaker_is_a_finding(account: Account):
    account.plane.knobs.throttle = 1
    assert findings(account.call("examine")) == [("unavailable", "SageMaker", False)]


def test_a_repair_needs_a_signature(account: Account):
    event = sample("mend")
    event["requestContext"]["identity"]["userArn"] = None
    status, error = account.call(event)
    assert (status, error["code"]) == (403, "not_signed")


@pytest.mark.parametrize("method", ["DELETE", "PUT"])
def test_a_wrong_method_gets_the_allowed_ones(account: Account, method: str):
    status, error = account.call({**sample("examine"), "httpMethod": method})
    assert (status, error["message"]) == (405, "use GET or POST here")


def test_the_tick_reconciles_every_five_minutes(account: Account, output):
    drifted(account)
    account.send("tick")
    assert account.state("job1") == "completed"
    assert "has ended (completed) without an event" in output()
    listings = account.plane.calls["ListTrainingJobs"]
    for _ in range(5):
        later(account, MINUTE)
        account.send("tick")
    assert account.plane.calls["ListTrainingJobs"] == listings + 1
    assert account.plane.calls["StopTrainingJob"] == 1
    assert account.plane.calls["ListTags"] == 1


def test_pools_are_shown_with_their_health(account: Account, monkeypatch):
    monkeypatch.setenv(
        "SLOTQ_POOLS", "main=4@ml.p4d.24xlarge;count_foreign=true,small=1@ml.g5.xlarge"
    )
    forget()
    account.plane.knobs.limits = {"ml.p4d.24xlarge": 1}
    for name in ("job1", "job2"):
        account.call(add_job(TrainingJobName=name))
    account.settle()
    status, body = account.call("list-pools")
    assert status == 200
    main, small = body["pools"]
    assert (main["name"], main["instance_type"]) == ("main", "ml.p4d.24xlarge")
    amounts = [main[key]["slots"] for key in ("capacity", "size", "used", "foreign")]
    assert amounts == [4, 1, 1, 0]
    health = main["health"]
    assert (health["errors"], health["learned"]) == (0, 1)
    assert health["learned_until"] == "2026-11-20T11:00:00.000Z"
    assert "is 1 Instances" in health["message"]
    assert small["health"] == {
        "errors": 0,
        "not_before": None,
        "learned": None,
        "learned_until": None,
        "message": "",
        "missing_rights": [],
        "failed_nodes": [],
        "starts": [],
        "started_at": None,
        "start_seconds": None,
        "slow_start_seconds": None,
        "warm_refused_at": None,
        "plan": None,
    }


def test_an_examination_is_allowed_once_a_minute(account: Account):
    """It reads the whole table, so repeated requests must not repeat it."""
    scans: list[str] = []
    account.dynamodb.meta.events.register(
        "before-call.dynamodb.Scan", lambda **_: scans.append("Scan"), unique_id="scans"
    )
    assert account.call("examine")[0] == 200
    for _ in range(5):
        answer = account.send("examine")
        assert answer["statusCode"] == 429
        assert answer["multiValueHeaders"]["Retry-After"] == ["60"]
        assert json.loads(answer["body"])["code"] == "examined_lately"
    assert account.call("mend")[0] == 200  # Whoever has looked may repair at once,
    assert account.call("mend")[0] == 429  # and only once.
    later(account, MINUTE - 19_500)
    answer = account.send("examine")
    assert answer["multiValueHeaders"]["Retry-After"] == ["20"]
    assert "ask again in 20 seconds" in json.loads(answer["body"])["message"]
    later(account, 19_500)
    assert account.call("examine")[0] == 200
    account.dynamodb.meta.events.unregister("before-call.dynamodb.Scan", unique_id="scans")
    assert len(scans) == 3
