"""Limits on the client's side: which refusals are retried, and `slotq limits`."""

from __future__ import annotations

import json
from email.utils import format_datetime

import pytest

from slotq.cli.exits import ExitCode
from slotq.errors import PriorityTooHigh, QueueFull, TooManySubmissions, TooManyWaiting
from tests.unit.client.conftest import NOW
from tests.unit.client.fake_queue import Clock, FakeAnswer, FakeHttp, FakeQueue, client_of

REQUEST = {
    "TrainingJobName": "job1",
    "RoleArn": "arn:aws:iam::123456789012:role/trainer",
    "AlgorithmSpecification": {"TrainingInputMode": "File", "TrainingImage": "image"},
    "OutputDataConfig": {"S3OutputPath": "s3://bucket/out"},
    "ResourceConfig": {"InstanceType": "ml.p5.48xlarge", "InstanceCount": 1, "VolumeSizeInGB": 1},
    "StoppingCondition": {"MaxRuntimeInSeconds": 60},
}
VIEW = {
    "version": 1,
    "revision": 4,
    "limits": {
        "waiting": 1000,
        "submissions": 60,
        "priority": 100,
        "waiting_in_all": 0,
        "lines": 2000,
        "callers": [{"callers": "*/ci", "together": True, "waiting": 5}],
    },
    "own": {
        "caller": "arn:aws:iam::123456789012:user/ci",
        "counted_as": "*/ci",
        "waiting": 5,
        "waiting_used": 3,
        "submissions": 60,
        "submissions_used": 1,
        "priority": 100,
    },
    "use": {"waiting": 1234, "lines": 17},
}


def refused(code: str, status: int = 429, again: int = 7) -> FakeAnswer:
    body = {"version": 1, "code": code, "message": f"too much: {code}", "field": ""}
    return FakeAnswer(status, json.dumps(body), {"Retry-After": str(again)})


def world(*troubles: FakeAnswer):
    http, clock, said = FakeHttp(FakeQueue()), Clock(), []
    http.troubles = list(troubles)
    client = client_of(http, clock=clock)
    client.say = said.append
    return client, http, clock, said


def test_a_submission_above_the_rate_waits_and_says_so():
    client, _, clock, said = world(*[refused("too_many_submissions", again=20)] * 2)
    assert client.submit(REQUEST).name == "job1"
    assert clock.slept == [20, 20]
    assert said == ["too much: too_many_submissions; waiting 20 s"] * 2


def test_the_wait_for_the_rate_is_bounded():
    client, _, clock, _ = world(*[refused("too_many_submissions", again=50)] * 9)
    with pytest.raises(TooManySubmissions):
        client.submit(REQUEST)
    assert clock.slept == [50, 50, 50]


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (refused("too_many_waiting"), TooManyWaiting),
        (refused("queue_full"), QueueFull),
        (refused("priority_too_high", 403), PriorityTooHigh),
    ],
)
def test_other_limits_are_errors_at_once(answer, kind):
    client, http, clock, said = world(answer)
    with pytest.raises(kind):
        client.submit(REQUEST)
    assert (len(http.sent), clock.slept, said) == (1, [], [])


def test_a_throttle_of_api_gateway_is_retried():
    client, _, clock, said = world(refused("throttled", again=1))
    assert client.submit(REQUEST).name == "job1"
    assert (clock.slept, said) == ([1], [])


def test_an_examination_waits_for_its_turn():
    client, _, clock, _ = world(refused("examined_lately", again=60))
    assert client.service.doctor() == []
    assert clock.slept == [60]


def answers(http, *views):
    http.troubles = [FakeAnswer(200, json.dumps(view)) for view in views]


def test_the_limits_are_shown_with_the_callers_use(slotq, http):
    answers(http, VIEW)
    result = slotq("limits")
    assert result.exit_code == ExitCode.OK, result.output
    rows = {line.split()[0]: line.split()[1:] for line in result.output.splitlines() if line}
    assert rows["waiting"][:3] == ["1,000", "5", "3"]
    assert rows["waiting_in_all"][:3] == ["1,234", "of", "none"]
    assert "you count as one caller with all of */ci" in result.output


def test_set_sends_the_named_limits(slotq, http):
    answers(http, VIEW)
    result = slotq("limits", "set", "--waiting", "0", "--lines", "9", "--revision", "3", "--json")
    assert result.exit_code == ExitCode.OK, result.output
    assert http.last_body() == {"waiting": 0, "lines": 9, "revision": 3}
    assert json.loads(result.stdout)["revision"] == 4


@pytest.mark.parametrize(
    ("words", "sent"),
    [
        (
            ["*/ci", "--waiting", "9"],
            [{"callers": "*/ci", "together": True, "waiting": 9}],
        ),
        (["*/ci", "--remove"], []),
        (
            ["*/admin", "--priority", "0"],
            [
                {"callers": "*/ci", "together": True, "waiting": 5},
                {"callers": "*/admin", "priority": 0},
            ],
        ),
    ],
)
def test_a_rule_can_be_added_changed_and_removed(slotq, http, words, sent):
    answers(http, VIEW, VIEW)
    result = slotq("limits", "rule", *words)
    assert result.exit_code == ExitCode.OK, result.output
    body = http.last_body()
    said = [{k: v for k, v in rule.items() if v is not None} for rule in body["callers"]]
    assert (said, body["revision"]) == (sent, 4)


@pytest.mark.parametrize(
    "words", [["set"], ["rule", "*/ci"], ["rule", "*/ci", "--remove", "--waiting", "3"]]
)
def test_an_empty_or_contradicting_change_is_a_usage_error(slotq, http, words):
    answers(http, VIEW)
    assert slotq("limits", *words).exit_code == ExitCode.USAGE


def test_doctor_without_the_right_prints_the_clients_checks_and_the_missing_right(
    slotq, queue, http
):
    send = http.send

    def denied(request):
        if request.url.endswith("/doctor"):
            message = "User is not authorized to perform: execute-api:Invoke"
            return FakeAnswer(403, json.dumps({"Message": message}))
        return send(request)

    http.send = denied
    http.headers = {"Date": format_datetime(NOW, usegmt=True)}
    result = slotq("doctor", "--json")
    assert result.exit_code == ExitCode.OK, result.output
    told = json.loads(result.stdout)
    assert told["findings"] == []
    assert told["checks"][-1]["name"] == "queue"
    assert "operator" in told["checks"][-1]["advice"]
    assert all(check["ok"] for check in told["checks"][:-1])
    assert slotq("doctor", "--fix").exit_code == ExitCode.NOT_ALLOWED
