"""A submission with a callback, through the real handler: whoever waits is told of the end."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slotq_core.adapters.dynamodb.outbox.callbacks import DynamoCallbacks
from tests.contract.test_dynamodb_cost import measured
from tests.functional.account import HOUR, Account, add_job, forget, sample

TOKEN = "AQCEAAAAKgAAAAMAAAAAAAAAAV-very-secret-" + "x" * 600


@pytest.fixture
def answering(account: Account, monkeypatch: pytest.MonkeyPatch) -> Account:
    monkeypatch.setenv("SLOTQ_CALLBACKS", "task,pipeline")
    monkeypatch.setenv("SLOTQ_ANNOUNCE", "1")
    forget()
    return account


def wait(account: Account, name: str, token: str = TOKEN, **body: Any) -> tuple[int, Any]:
    return account.call(
        add_job(TrainingJobName=name, **{"slotq:callback": {"task_token": token}}, **body)
    )


def test_a_state_machine_waits_for_a_job(answering, caplog, capsys):
    status, job = wait(answering, "train")
    assert (status, job["state"]) == (202, "pending")
    answering.settle()
    answering.send("tick")
    assert answering.waits.calls == [("send_task_heartbeat", {"taskToken": TOKEN})]
    answering.completes("train")
    answering.send("tick")
    ((operation, said),) = answering.waits.answers()
    assert (operation, said["taskToken"]) == ("send_task_success", TOKEN)
    output = json.loads(said["output"])
    assert (output["job"], output["state"]) == ("train", "completed")
    assert output["model"].startswith("s3://")
    answering.send("tick")
    assert len(answering.waits.answers()) == 1
    assert not any(item["pk"]["S"] == "CALLBACKS" for item in answering.items())
    for text in (caplog.text, *capsys.readouterr()):
        assert "very-secret" not in text


def test_nothing_but_the_callback_itself_has_the_token(answering, caplog, capsys):
    _, job = wait(answering, "train")
    answering.settle()
    assert wait(answering, "train", f"{TOKEN}2")[0] == 202
    answering.waits.refuses = "ThrottlingException"
    answering.send("tick")
    found = [job]
    for event in (
        "list-jobs",
        "get-scenario",
        "examine",
        "list-attempts",
        {**sample("get-job"), "path": "/jobs/train"},
        {**sample("get-request"), "path": "/jobs/train/request"},
    ):
        status, answer = answering.call(event)
        assert status == 200, answer
        found.append(answer)
    found += [answering.announced.entries, answering.letters.read, answering.lambda_.calls]
    found += [caplog.text, *capsys.readouterr()]
    found += [answering.plane.job("train").request]
    for seen in found:
        assert "very-secret" not in json.dumps(seen, default=str)
        assert "slotq:callback" not in json.dumps(seen, default=str)
    with_it = {item["pk"]["S"] for item in answering.items() if "very-secret" in str(item)}
    assert with_it == {"CALLBACKS"}


def test_what_is_refused_is_seen_by_operators(answering):
    wait(answering, "train")
    answering.settle()
    answering.completes("train")
    answering.waits.refuses = "KmsAccessDeniedException"
    answering.send("tick")
    _, found = answering.call("examine")
    (finding,) = [each for each in found["findings"] if each["kind"] == "callback"]
    assert finding["subject"] == "train"
    assert "refused the answer once: KmsAccessDeniedException" in finding["text"]
    answering.waits.refuses = ""
    answering.clock.set(answering.clock.now() + HOUR)
    answering.send("tick")
    assert [operation for operation, _ in answering.waits.answers()][-1] == "send_task_success"
    _, found = answering.call({**sample("mend")})
    assert not [each for each in found["findings"] if each["kind"] == "callback"]


def test_a_stopped_execution_cancels_the_job(answering):
    wait(answering, "train")
    answering.settle()
    answering.waits.over.add(TOKEN)
    answering.send("tick")
    answering.settle()
    _, job = answering.call({**sample("get-job"), "path": "/jobs/train"})
    assert job["state"] == "cancelled"
    assert "nobody waits for its end any more" in job["message"]


def test_a_submission_after_the_end_is_no_conflict(answering):
    wait(answering, "train")
    answering.settle()
    answering.completes("train")
    answering.send("tick")
    status, job = wait(answering, "train", "another")
    assert (status, job["state"]) == (202, "completed")
    answering.send("tick")
    assert answering.waits.answers()[-1][1]["taskToken"] == "another"
    assert answering.call(add_job(TrainingJobName="train"))[0] == 409


def test_a_dry_run_keeps_no_token(answering):
    event = add_job(TrainingJobName="train", **{"slotq:callback": {"task_token": TOKEN}})
    event["queryStringParameters"] = {"dry_run": "true"}
    event["multiValueQueryStringParameters"] = {"dry_run": ["true"]}
    assert answering.call(event)[0] == 200
    assert "very-secret" not in str(answering.items())


@pytest.mark.parametrize(
    "callback",
    [None, "x", {}, {"task_token": "a\nb"}, {"task_token": "x" * 900_000}, {"token": TOKEN}],
)
def test_a_hostile_callback_stores_nothing(answering, callback):
    event = add_job(TrainingJobName="train")
    body = {**json.loads(event["body"]), "slotq:callback": callback}
    status, answer = answering.call({**event, "body": json.dumps(body)})
    assert (status, answer["code"]) == (400, "invalid_request")
    assert "slotq:callback" in answer["message"]
    assert len(answer["message"]) < 500
    assert not [item for item in answering.items() if item["pk"]["S"] == "JOB#train"]


def test_a_queue_that_answers_nobody_says_so(account):
    status, answer = wait(account, "train")
    assert status == 400
    assert (answer["field"], "TaskCallbacks" in answer["message"]) == ("slotq:callback", True)


def test_what_callbacks_cost(account, monkeypatch):
    """A job without one costs no call more where the queue answers some. A tick then looks once at
    who waits, and reads the jobs of those that do."""

    def life(name: str, callback: Any = None) -> tuple[list[str], list[str]]:
        forget()
        body = {"slotq:callback": {"task_token": callback}} if callback else {}
        with measured(account.dynamodb) as job:
            assert account.call(add_job(TrainingJobName=name, **body))[0] == 202
            account.settle()
            account.completes(name)
        with measured(account.dynamodb) as tick:
            account.send("tick")
        return job.calls, tick.calls

    life("warm-up")
    job, tick = life("plain-1")
    monkeypatch.setenv("SLOTQ_CALLBACKS", "task")
    among_job, among_tick = life("plain-2")
    with_job, with_tick = life("plain-3", "token")
    assert job == among_job == with_job
    assert sorted(among_tick) == sorted([*tick, "Query"])
    # Its job, its last attempt with the model, and the callback that is forgotten.
    assert sorted(with_tick) == sorted([*among_tick, "BatchGetItem", "Query", "DeleteItem"])
    assert [operation for operation, _ in account.waits.calls] == ["send_task_success"]


def test_a_tick_that_dies_behind_the_answer_repeats_it(answering, monkeypatch):
    wait(answering, "train")
    answering.settle()
    answering.completes("train")

    def dies(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(DynamoCallbacks, "forget", dies)
        with pytest.raises(KeyboardInterrupt):
            answering.send("tick")
    forget()
    answering.send("tick")
    assert [operation for operation, _ in answering.waits.answers()] == ["send_task_success"] * 2
    assert not any(item["pk"]["S"] == "CALLBACKS" for item in answering.items())
