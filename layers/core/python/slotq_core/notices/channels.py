"""The channels of messages. Pure: `adapters.receivers.sending` makes the calls.

A channel is one class here, and an entry of CHANNELS. The key in a rule's `to`, the check of its
value, and the call for a message follow from the class.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from slotq_core.errors import NotDelivered
from slotq_core.model.notices import Receiver
from slotq_core.notices import payloads
from slotq_core.notices.payloads import Message
from slotq_core.notices.places import (
    fault_in_reference,
    fault_in_slack_url,
    fault_in_topic,
    fault_in_url,
)

SECRET = "secret"  # noqa: S105 - a key in a rule # nosec B105
"""The key that names where a channel's key is kept, if the channel signs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Post:
    """A request over HTTPS."""

    url: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class ServiceCall:
    """A call of an AWS service."""

    service: str
    operation: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Sending:
    """Other inputs that a channel may need besides the message."""

    queue: str
    now: int
    """In ms."""
    kept: Callable[[str], str]
    """The secret at a place."""
    loopback: bool
    """Whether a receiver may be on this machine."""


class Channel(Protocol):
    key: str
    """In a rule's `to`."""
    takes: str
    """The value of that key, in one word."""
    signs: bool
    """Whether its messages are signed, with a key that a rule names as `secret`."""

    def fault(self, place: object) -> str:
        """The fault of a receiver's place; empty if it is valid."""

    def call(self, message: Message, receiver: Receiver, sending: Sending) -> Post | ServiceCall:
        """The call that the message becomes. Raises NotDelivered."""


class Sns:
    """Topics of SNS."""

    key, takes, signs = "sns", "ARN", False

    def fault(self, place: object) -> str:
        return fault_in_topic(place)

    def call(self, message: Message, receiver: Receiver, sending: Sending) -> Post | ServiceCall:
        request = payloads.sns_request(message, receiver.place, sending.queue)
        return ServiceCall(service="sns", operation="publish", arguments=request)


class Slack:
    """Slack's incoming webhooks, whose URLs are secrets: a rule names where one is kept."""

    key, takes, signs = "slack", "REFERENCE", False

    def fault(self, place: object) -> str:
        return fault_in_reference(place)

    def call(self, message: Message, receiver: Receiver, sending: Sending) -> Post | ServiceCall:
        url = sending.kept(receiver.place)
        if fault := fault_in_slack_url(url, loopback=sending.loopback):
            raise NotDelivered(fault)
        return Post(url=url, body=payloads.slack_body(message))


class Webhook:
    """Any URL; the receiver checks the payloads."""

    key, takes, signs = "webhook", "URL", True

    def fault(self, place: object) -> str:
        return fault_in_url(place)

    def call(self, message: Message, receiver: Receiver, sending: Sending) -> Post | ServiceCall:
        if fault := fault_in_url(receiver.place):
            raise NotDelivered(fault)  # Configured when the rules were others.
        body = payloads.webhook_body(message, sending.queue)
        key = sending.kept(receiver.secret)
        headers = payloads.headers(message.id, body, key, sending.now)
        return Post(url=receiver.place, body=body, headers=headers)


CHANNELS: Mapping[str, Channel] = {channel.key: channel for channel in (Sns(), Slack(), Webhook())}
"""By their keys."""
