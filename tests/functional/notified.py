"""A queue with notifications: the real handlers, the table's stream, and moto's SNS and secrets."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import boto3
import pytest

import notifier
from slotq.local.notifier import JobStream
from slotq_core.adapters.receivers.sending import Sender
from slotq_core.errors import NotDelivered
from slotq_core.model.notices import Receiver
from slotq_core.notices.payloads import Message
from tests.functional.account import TABLE, Account, context, sample

REFERENCE = "ssm:/slotq/notifications/hook"
TOPIC = "arn:aws:sns:us-east-1:123456789012:jobs"
POOLS = [{"name": "main", "capacity": 2, "instance_type": "ml.p4d.24xlarge"}]
MINUTE = 60_000


class Died(BaseException):
    """The handler's process ends here."""


class Inbox:
    """A receiver that keeps what it gets. `refuses`: it takes nothing. `dies`: the sender dies
    before the message has left, or after."""

    def __init__(self) -> None:
        self.got: list[Message] = []
        self.refuses: set[str] = set()
        self.dies = ""

    def send(self, message: Message, receiver: Receiver, *, now: int) -> None:
        if self.dies == "before":
            raise Died
        if message.notification in self.refuses:
            raise NotDelivered("it answers 503")
        self.got.append(message)
        if self.dies == "after":
            raise Died

    @property
    def notifications(self) -> list[tuple[str, str]]:
        return [(each.job, each.event) for each in self.got]


class Notified:
    """An account with a notifier."""

    def __init__(self, account: Account, stream: JobStream) -> None:
        self.account, self.stream = account, stream
        self.inbox = Inbox()

    def configure(self, *rules: dict[str, Any], **sections: Any) -> tuple[int, dict[str, Any]]:
        event = sample("apply-configuration")
        event["queryStringParameters"] = event["multiValueQueryStringParameters"] = None
        document = {"pools": POOLS, "notifications": [*rules], **sections}
        event["body"] = json.dumps({"configuration": document})
        return self.account.call(event)

    def batch(self) -> dict[str, Any]:
        return {"Records": copy.deepcopy(self.stream.batch(1000))}

    def invoke(self, event: dict[str, Any], milliseconds: int = 60_000) -> dict[str, Any]:
        return notifier.handler(event, context(milliseconds))

    def hear(self) -> None:
        """Hand over what the stream has, as Lambda does."""
        event = self.batch()
        assert self.invoke(event) == {"batchItemFailures": []}
        self.stream.handled(len(event["Records"]))

    def minute(self, minutes: int = 1) -> None:
        """Let time pass, and the schedule ring."""
        self.account.clock.set(self.account.clock.now() + minutes * MINUTE)
        self.invoke(sample("tick"))

    def kept(self, partition: str) -> list[dict[str, Any]]:
        return [item for item in self.account.items() if item["pk"]["S"] == partition]


def notified(
    account: Account, monkeypatch: pytest.MonkeyPatch, *, inbox: Callable[..., Any] | None = None
) -> Notified:
    """The account's notifier, as after a cold start."""
    made = Notified(account, JobStream(account.dynamodb))
    monkeypatch.setenv("SLOTQ_TABLE", TABLE)
    monkeypatch.setattr(notifier, "clock", account.clock)
    monkeypatch.setattr(
        notifier,
        "client",
        lambda service: (
            account.dynamodb
            if service == "dynamodb"
            else boto3.client(
                service,
                region_name="us-east-1",
                aws_access_key_id="testing",
                aws_secret_access_key="testing",
            )
        ),
    )
    restart(made, monkeypatch)
    return made


def restart(made: Notified, monkeypatch: pytest.MonkeyPatch, *, real: bool = False) -> None:
    """A new process. `real`: it really sends, also to this machine."""
    notifier.notices.cache_clear()
    monkeypatch.setattr(
        notifier,
        "Sender",
        lambda client, queue: Sender(client, queue=queue, loopback=True) if real else made.inbox,
    )
