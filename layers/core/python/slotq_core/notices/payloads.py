"""A message in each receiver's form. docs/notifications.md describes them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from slotq_core.model.notices.message import Message
from slotq_core.timestamps import iso

VERSION = 1
_LONGEST_SUBJECT = 100
"""SNS's own limit on a subject, which is ASCII without line breaks."""


def webhook_body(message: Message, queue: str) -> bytes:
    """Return the JSON that webhooks get."""
    return json.dumps(_fields(message, queue)).encode()


def slack_body(message: Message) -> bytes:
    """Return the JSON for Slack's incoming webhooks. Nothing in it links or mentions anybody,
    whatever a job is named."""
    text = escaped(f"{message.title}\n{message.text}")
    return json.dumps({"text": text, "mrkdwn": False, "unfurl_links": False}).encode()


def escaped(text: str) -> str:
    """Return the text without Slack's three control characters: "replace the ampersand, less-than
    and greater-than"."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def sns_request(message: Message, topic: str, queue: str) -> Mapping[str, Any]:
    """Return the arguments of Publish. A FIFO topic drops what it has had within five minutes."""
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
