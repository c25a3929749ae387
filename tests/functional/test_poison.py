"""What cannot be understood goes to the dead letters once, with its reason, and stops nothing."""

import json

import pytest

import app
from slotq_core.adapters.dynamodb.layout.table import active_key, job_key
from tests.functional.account import EVENTS, TABLE, Account, add_job, sample

POISON = {
    "poison-no-detail": "the event has no detail, or its detail is not an object",
    "poison-detail-is-text": "the event has no detail, or its detail is not an object",
    "poison-no-name": "the event's detail names no training job",
    "poison-unknown-status": "unknown TrainingJobStatus 'Hibernating'",
    "poison-odd-field": "the event's detail does not have SageMaker's form (AttributeError)",
    "poison-unknown-source": "this event is not a trigger of the queue",
}
SECRETS = ("sagemaker_program", "pytorch-training", "amzn-s3-demo-bucket", "RoleArn")


def test_every_malformed_sample_is_tried_here():
    assert {path.stem for path in EVENTS.glob("poison-*.json")} == set(POISON)


@pytest.mark.parametrize(("name", "reason"), POISON.items())
def test_a_malformed_event_goes_to_the_dead_letters(
    account: Account, output, name: str, reason: str
):
    account.call("add-job")
    account.settle()
    before = account.items()
    assert account.send(name) == {"dead_letter": reason}
    (letter,) = account.letters.read
    event = sample(name)
    known = name in {"poison-unknown-status", "poison-odd-field"}
    assert letter == {
        "kind": "event",
        "subject": "job1" if known else event["id"],
        "reason": reason,
        "at": "2026-11-20T10:30:00.000Z",
    }
    assert account.items() == before
    assert account.state("job1") == "running"
    written = output()
    assert reason in written
    for secret in SECRETS:
        assert secret not in written + json.dumps(letter)


@pytest.mark.parametrize("event", [[], None, 7, {}, {"source": None, "detail": []}])
def test_an_event_of_unknown_form_goes_to_the_dead_letters(account: Account, event: object):
    assert "dead_letter" in account.send(event)
    (letter,) = account.letters.read
    assert letter["subject"] == "an event without an id"


def test_a_letter_that_cannot_be_sent_is_only_logged(account: Account, monkeypatch, output):
    def refuse(**_: object):
        raise ValueError("no such queue")

    monkeypatch.setattr(account.letters, "send_message", refuse)
    assert "dead_letter" in account.send("poison-no-detail")
    assert "ValueError" in output()


def test_without_a_dead_letter_queue_letters_are_only_logged(account: Account, monkeypatch, output):
    monkeypatch.setenv("SLOTQ_DEAD_LETTERS", "")
    assert "dead_letter" in account.send("poison-no-detail")
    assert account.letters.read == []
    assert "the event has no detail" in output()


def test_other_failures_are_raised_so_that_lambda_retries(account: Account, monkeypatch):
    def broken(*_):
        raise ValueError

    monkeypatch.setattr(app.manager(), "observe", broken)
    with pytest.raises(app.Failed, match="ValueError"):
        account.send("training-completed")
    assert account.letters.read == []


def spoil(account: Account, pk: str, sk: str) -> None:
    """Set a priority that no release would write."""
    key = {"pk": {"S": pk}, "sk": {"S": sk}}
    (item,) = [it for it in account.items() if {"pk": it["pk"], "sk": it["sk"]} == key]
    bearer = item["job"]["M"] if "job" in item else item
    assert "priority" in bearer
    bearer["priority"] = {"S": "high"}
    account.dynamodb.put_item(TableName=TABLE, Item=item)


def two_jobs_one_runs(account: Account) -> None:
    """Two slots: job1 runs in one; the job `whole` is submitted and not decided yet."""
    account.call("add-job")
    account.settle()
    account.call(add_job(TrainingJobName="whole"))


def test_a_broken_copy_is_restored_from_its_job_and_stops_nothing(account: Account, output):
    two_jobs_one_runs(account)
    spoil(account, *active_key("main", "job1"))
    account.settle()
    assert [account.state("job1"), account.state("whole")] == ["running", "running"]
    (letter,) = account.letters.read
    assert letter["kind"] == "item"
    assert "job1" in letter["subject"]
    assert "ACTIVE#job1" in output()
    account.call("cancel-job")
    account.settle()
    assert account.state("job1") == "cancelled"
    assert account.call("examine")[1]["findings"] == []


def test_an_unreadable_job_is_quarantined_and_its_slot_stays_held(account: Account):
    two_jobs_one_runs(account)
    spoil(account, *job_key("job1"))
    spoil(account, *active_key("main", "job1"))
    account.settle()
    account.send("training-completed")
    account.settle()
    assert account.state("whole") == "running"
    account.call(add_job(TrainingJobName="next"))
    account.settle()
    assert account.state("next") == "pending"
    kinds = {letter["kind"] for letter in account.letters.read}
    assert "item" in kinds
    letters = len(account.letters.read)
    for _ in range(3):
        account.clock.set(account.clock.now() + 300_000)
        account.send("tick")
    assert len(account.letters.read) == letters
    assert account.plane.calls["StopTrainingJob"] == 0
