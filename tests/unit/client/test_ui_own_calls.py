"""What the page asks that the API does not have: what if, starts, many jobs at once, clone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slotq.ui.own_calls import OwnCalls
from tests.least_request import least_request
from tests.unit.client.fake_queue import client_of, waiting
from tests.unit.client.fake_scenario import fake_scenario, job


@pytest.fixture
def own(http, clock):
    calls = OwnCalls(client_of(http, clock=clock))

    def ask(path: str, body: Any) -> tuple[int, Any]:
        answer = calls.at(path)
        assert answer is not None
        reply = answer(body if isinstance(body, bytes) else json.dumps(body).encode())
        return reply.status, json.loads(reply.body)

    return ask


def test_there_are_no_other_calls(http, clock):
    assert OwnCalls(client_of(http, clock=clock)).at("/own/else") is None


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"more": 1}', b"\xff"])
@pytest.mark.parametrize(
    "path", ["/own/whatif", "/own/whatif/apply", "/own/start", "/own/jobs", "/own/clone"]
)
def test_a_malformed_body_is_refused(own, path, body):
    status, answer = own(path, body)
    assert (status, answer["code"]) == (400, "invalid_request")
    assert answer["message"]


def test_the_answer_is_that_of_the_terminal(own, slotq):
    status, answer = own("/own/whatif", {"pools": {"p5": 4}, "runtime_hours": 4})
    assert status == 200
    told = json.loads(slotq("whatif", "--pool", "p5=4", "--runtime", "4h", "--json").stdout)
    assert {key: answer[key] for key in told} == told
    printed = slotq("whatif", "--pool", "p5=4", "--runtime", "4h").stdout
    words = answer["words"]
    for row, said in zip(answer["now"], words["now"], strict=True):
        assert row["job"] in printed
        assert said["after"] in printed
    (cost,) = answer["words"]["costs"]
    assert cost["before"] in printed and cost["after"] in printed
    assert answer["words"]["prices"] in " ".join(printed.split())
    assert answer["diff"] == slotq("whatif", "--pool", "p5=4", "--diff").stdout


def test_all_kinds_of_changes_go_together(own):
    body = {
        "quotas": {"team-b": "2"},
        "priorities": {"whisper": "9"},
        "moves": {"resnet": ["p5"]},
        "cancels": ["vit"],
        "holds": ["resnet"],
        "adds": [{"name": "new", "slots": 1, "pool": "p5", "project": "team-a", "priority": "7"}],
        "hours": 1,
    }
    status, answer = own("/own/whatif", body)
    assert status == 200, answer
    now = {row["job"]: row["after"]["what"] for row in answer["now"]}
    assert (now["new"], now["vit"], now["resnet"]) == ("waits", "stops", "held")


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"pools": {"p9": 1}}, 404, "p9"),
        ({"pools": {"p5": -1}}, 400, "greater than or equal to 0"),
        ({"quotas": {"team-a": "&a [*a]"}}, 400, "give slots, or a mapping"),
        ({"quotas": {"team-a": "many"}}, 400, "quota"),
        ({"quotas": {"team-a": "[" * 1000}}, 400, "give slots, or a mapping"),
        ({"quotas": {"team-a": "2026-02-30"}}, 400, "give slots, or a mapping"),
        ({"quotas": {"team-a": "2026-02-28"}}, 400, "quota"),
        ({"quotas": {"team-a": ".inf"}}, 400, "quota"),
        ({"quotas": {"team-a": "{1: 2}"}}, 400, "quota"),
        ({"quotas": {"team-a": "9" * 900}}, 400, "quota"),
        ({"priorities": {"whisper": "999999999"}}, 400, "a priority is from"),
        ({"adds": [{"name": "vit", "slots": 1, "pool": "p5"}]}, 409, "exists already"),
        ({"hours": 1000}, 400, "less than or equal to 72"),
    ],
)
def test_what_cannot_be_is_refused_in_words(own, body, status, said):
    answered, answer = own("/own/whatif", body)
    assert answered == status, answer
    assert said in answer["message"]


def test_a_change_is_put_into_force(own, queue):
    queue.scenario = fake_scenario(job("job3"))
    body = {"priorities": {"job3": "4"}, "revision": 7}
    assert own("/own/whatif/apply", body) == (200, {"done": ["job3: priority 4"], "refused": ""})
    assert queue.jobs["job3"].priority == 4


def test_what_was_done_before_a_refusal_is_told(own, queue):
    queue.scenario = fake_scenario(job("job3"))
    body = {"priorities": {"job3": "4"}, "cancels": ["resnet"], "revision": 7}
    status, answer = own("/own/whatif/apply", body)
    assert (status, answer["done"]) == (200, ["job3: priority 4"])
    assert "resnet" in answer["refused"]
    status, answer = own("/own/whatif/apply", {"cancels": ["resnet"], "revision": 7})
    assert status == 404, "where nothing was done, it is a refusal"


def test_nothing_is_done_on_a_configuration_that_nobody_has_looked_at(own, queue):
    queue.scenario = fake_scenario(job("job3"))
    status, answer = own("/own/whatif/apply", {"priorities": {"job3": "4"}, "revision": 6})
    assert status in {409, 412}, answer
    assert "has changed since you asked" in answer["message"]
    assert queue.jobs["job3"].priority == 1
    added = {"adds": [{"name": "new", "slots": 1, "pool": "p5"}], "revision": 7}
    assert own("/own/whatif/apply", added)[0] == 400


def test_when_a_job_starts(own, queue, http):
    status, first = own("/own/start", {"job": "resnet"})
    assert (status, first["known"], first["at_most"]) == (200, True, True)
    assert first["starts"] == "2026-11-20T12:30:00.000Z", "bert says that it ends then"
    asked = len(http.sent)
    assert own("/own/start", {"job": "nobody"})[1]["known"] is False
    assert len(http.sent) == asked, "one reading of the queue answers for all jobs"


def test_one_verb_for_many_jobs(own, queue):
    queue.jobs["job4"] = waiting(2, name="job4")
    body = {"verb": "hold", "names": ["job3", "job4", "job9"], "states": ["pending", "failed"]}
    status, answer = own("/own/jobs", body)
    assert (status, answer["changed"]) == (200, 2)
    assert [each["job"] for each in answer["refused"]] == ["job9"]
    assert queue.jobs["job3"].state == queue.jobs["job4"].state == "held"
    body = {"verb": "priority", "names": ["job3"], "states": ["held"], "priority": " "}
    assert own("/own/jobs", body)[0] == 400
    assert own("/own/jobs", {**body, "priority": "5"})[1] == {"changed": 1, "refused": []}
    assert queue.jobs["job3"].priority == 5
    assert own("/own/jobs", {"verb": "retry", "names": ["job9"], "states": ["failed"]})[0] == 400


def test_a_clone_is_a_new_job(own, queue):
    queue.requests["job3"] = least_request("job3")
    status, answer = own("/own/clone", {"name": "job3", "new_name": "job5", "priority": "2"})
    assert (status, answer["name"]) == (200, "job5"), answer
    assert queue.jobs["job5"].priority == 2
    assert own("/own/clone", {"name": "nobody", "new_name": "job6"})[0] == 404
