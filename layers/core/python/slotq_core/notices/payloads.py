"""A message, and its form for each receiver (docs/notifications.md). Messages to webhooks are
signed: HMAC-SHA256 over the moment and the body.

`SlotQ-Signature: t=1795000000,v1=HEX`, where HEX is the HMAC of `1795000000.BODY` under the shared
key. A receiver that refuses old moments refuses replays.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slotq_core.timestamps import iso

DIGEST = "digest"
TEST = "test"
"""Kinds of messages that are about no event of one job."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """A message of one rule, without any part of a job's request."""

    id: str
    """The same each time that the message is sent, so that receivers can drop duplicates."""
    notification: str
    """The rule's name."""
    event: str
    """An `Event`, `DIGEST` or `TEST`."""
    title: str
    text: str
    """Plain text. Names and SageMaker's words in it are untrusted: escape them."""
    at: int
    """When it happened (ms)."""
    job: str = ""
    project: str = ""
    person: str = ""
    pool: str = ""
    attempt: int = 0
    """The number of the latest attempt; 0: none."""
    training_job: str = ""


VERSION = 1
_LONGEST_SUBJECT = 100
"""SNS's own limit on a subject, which is ASCII without line breaks."""


def webhook_body(message: Message, queue: str) -> bytes:
    """Return the JSON for webhooks."""
    return json.dumps(_fields(message, queue)).encode()


def slack_body(message: Message) -> bytes:
    """Return the JSON for Slack's incoming webhooks, without links or mentions, whatever a job is
    named."""
    text = escaped(f"{message.title}\n{message.text}")
    return json.dumps({"text": text, "mrkdwn": False, "unfurl_links": False}).encode()


def escaped(text: str) -> str:
    """Return the text without Slack's three control characters: "replace the ampersand, less-than
    and greater-than"."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def sns_request(message: Message, topic: str, queue: str) -> Mapping[str, Any]:
    """Return the arguments of Publish. A FIFO topic drops duplicates within five minutes."""
    words = {"event_id": message.id, "event": message.event, "queue": queue, "job": message.job}
    words["project"] = message.project
    request = {
        "TopicArn": topic,
        "Subject": message.title.encode("ascii", "replace").decode()[:_LONGEST_SUBJECT],
        "Message": message.text,
        "MessageAttributes": {
            f"slotq_{name}": {"DataType": "String", "StringValue": value}
            for name, value in words.items()
            if value
        },
    }
    if topic.endswith(".fifo"):
        order = {"MessageGroupId": message.job or "slotq", "MessageDeduplicationId": message.id}
        return {**request, **order}
    return request


def _fields(message: Message, queue: str) -> dict[str, Any]:
    return {
        "version": VERSION,
        "id": message.id,
        "queue": queue,
        "notification": message.notification,
        "event": message.event,
        "title": message.title,
        "text": message.text,
        "at": iso(message.at),
        "job": message.job or None,
        "project": message.project or None,
        "person": message.person or None,
        "pool": message.pool or None,
        "attempt": message.attempt or None,
        "training_job": message.training_job or None,
    }


SIGNATURE = "SlotQ-Signature"
EVENT_ID = "SlotQ-Event-Id"


def headers(event_id: str, body: bytes, key: str, now: int) -> dict[str, str]:
    """Return the headers of a signed message. `now`: ms."""
    moment = str(now // 1000)
    return {EVENT_ID: event_id, SIGNATURE: f"t={moment},v1={signed(moment, body, key)}"}


def signed(moment: str, body: bytes, key: str) -> str:
    text = moment.encode() + b"." + body
    return hmac.new(key.encode(), text, hashlib.sha256).hexdigest()
