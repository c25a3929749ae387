"""GET tells the progress that scripts report, whatever S3 does."""

from __future__ import annotations

import json
from dataclasses import replace

import app
from tests.functional.account import NOW, Account, sample

PLACE = ("sagemaker-us-east-1-123456789012", "checkpoints/job1/_slotq/job1/report.json")


def write(account: Account, **fields) -> None:
    now = account.clock.now()
    report = {"version": 1, "training_job": "job1", "step": 7, "of": 9, "reported_at": now}
    account.s3.objects[PLACE] = json.dumps({**report, **fields}).encode()


def test_a_running_job_tells_its_progress(account):
    account.call("add-job")
    account.settle()
    assert account.call("get-job")[1]["progress"] is None
    account.clock.set(account.clock.now() + 60_000)
    write(account, metrics={"loss": float("nan"), "acc": 0.5, "\x1b[31m": 1})
    status, job = account.call("get-job")
    assert status == 200
    assert (job["progress"]["step"], job["progress"]["of"]) == (7, 9)
    assert job["progress"]["metrics"] == {"acc": 0.5, "[31m": 1}
    assert job["progress"]["eta_seconds"] is None
    listed = account.call("list-jobs")[1]["jobs"]
    assert [each["progress"] for each in listed] == [job["progress"]]


def test_s3_that_fails_leaves_the_answer_whole(account, monkeypatch):
    account.call("add-job")
    account.settle()
    write(account)
    monkeypatch.setattr(account.s3, "get_object", lambda **_: 1 / 0)
    status, job = account.call("get-job")
    assert (status, job["state"], job["progress"]) == (200, "running", None)


def test_a_client_that_cannot_be_made_leaves_the_answer_whole(account, monkeypatch):
    account.call("add-job")
    account.settle()
    made = account.client
    monkeypatch.setattr("app.client", lambda name: made(name) if name != "s3" else 1 / 0)
    assert account.call("get-job")[1]["progress"] is None


def test_an_evicted_jobs_history_tells_where_it_resumes(account):
    account.call("add-job")
    account.settle()
    account.clock.set(account.clock.now() + 60_000)
    account.call("add-job-urgent")
    write(account, checkpoint={"step": 4200, "at": account.clock.now(), "seconds": 1})
    account.settle()
    event = {**sample("get-job"), "path": "/jobs/job1"}
    (attempt,) = account.call(event)[1]["attempts"]
    assert attempt["outcome"] == "evicted"
    assert attempt["resumption"] == "resumes from step 4,200, saved 0 s before the stop"
    assert (attempt["step"], attempt["of"], attempt["saved"]["step"]) == (7, 9, 4200)


def test_a_warning_is_announced(account, monkeypatch):
    monkeypatch.setenv("SLOTQ_ANNOUNCE", "1")
    monkeypatch.setenv("SLOTQ_POOLS", "main=2@ml.p4d.24xlarge;stall_after=1800")
    account.call("add-job")
    account.settle()
    write(account)
    account.send("tick")
    account.clock.set(account.clock.now() + 1_800_000)
    for _ in range(2):
        account.send("tick")
    told = [each for each in account.announced.entries if each["DetailType"] == "SlotQ Job Warning"]
    (detail,) = [json.loads(each["Detail"]) for each in told]
    assert (detail["job"], detail["code"], detail["pool"]) == ("job1", "stalled", "main")
    assert "nothing for 30 min" in detail["text"]
    assert account.call("get-job")[1]["stalled_since"] is not None


def test_a_save_slower_than_the_grace_is_warned_of(account):
    account.call("add-job")
    account.settle()
    store = app.manager()._store
    (pool,) = store.configuration.read().pools
    store.configuration.change(pools=[replace(pool, suspend_grace=5_000)], who="test", now=NOW)
    account.clock.set(account.clock.now() + 60_000)
    write(account, checkpoint={"step": 5, "at": account.clock.now(), "seconds": 42})
    (warning,) = account.call("get-job")[1]["warnings"]
    assert "took 42 s" in warning
    assert account.call("list-jobs")[1]["jobs"][0]["warnings"] == [warning]
    account.completes("job1")
    assert account.call("get-job")[1]["warnings"] == []
