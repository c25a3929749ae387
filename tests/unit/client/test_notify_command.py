"""`slotq notify test`: a message to the receiver, or a look at it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slotq.cli.exits import ExitCode
from slotq.cli.queue import notify_command
from slotq_core.errors import NotDelivered
from slotq_core.wire.document.contents import read

TOPIC = "arn:aws:sns:us-east-1:123456789012:jobs"
DOCUMENT = {
    "pools": [{"name": "p5", "capacity": 2, "instance_type": "ml.p5.48xlarge"}],
    "notifications": [
        {"name": "ops", "for": "all", "to": {"sns": TOPIC}, "events": ["failed"], "digest": "daily"}
    ],
}


class Sent:
    """Stands for the sender."""

    refuses = ""

    def __init__(self, client: Any, *, queue: str, loopback: bool) -> None:
        self.messages: list[Any] = sent

    def send(self, message: Any, receiver: Any, *, now: int) -> None:
        if self.refuses:
            raise NotDelivered(self.refuses)
        self.messages.append((message, receiver))


sent: list[Any] = []


@pytest.fixture(autouse=True)
def _configured(queue, monkeypatch):
    queue.configuration.settings = read(DOCUMENT)
    monkeypatch.setattr(notify_command, "Sender", Sent)
    sent.clear()


def test_a_dry_run_prints_the_message_and_sends_nothing(slotq):
    result = slotq("notify", "test", "ops", "--dry-run")
    assert result.exit_code == ExitCode.OK
    assert result.stdout.splitlines() == [
        "A test of the notification ops",
        "This is how you will hear of all jobs: failed, and a daily digest.",
    ]
    assert sent == []


def test_a_test_is_sent_and_a_program_reads_it(slotq):
    told = json.loads(slotq("notify", "test", "ops", "--json").stdout)
    ((message, receiver),) = sent
    assert (told["sent"], told["notification"]) == (True, "ops")
    assert (told["message"]["event"], told["message"]["id"]) == ("test", message.id)
    assert receiver.place == TOPIC


def test_what_does_not_arrive_says_why_and_what_to_do(slotq, monkeypatch):
    monkeypatch.setattr(Sent, "refuses", "SNS does not take it (NotFound)")
    result = slotq("notify", "test", "ops")
    assert result.exit_code != ExitCode.OK
    assert "slotq: ops: SNS does not take it (NotFound)" in result.stderr
    assert "docs/notifications.md" in result.stderr


def test_an_unknown_name_lists_those_that_there_are(slotq):
    result = slotq("notify", "test", "opps")
    assert result.exit_code != ExitCode.OK
    assert (
        "there is no notification 'opps'; the notifications are ops; did you mean" in result.stderr
    )
