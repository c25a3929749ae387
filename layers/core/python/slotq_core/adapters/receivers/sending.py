"""Send one message: to an SNS topic, to Slack or to a signed webhook."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from slotq_core.adapters.receivers.https import post
from slotq_core.adapters.receivers.secrets import Secrets, reason
from slotq_core.errors import NotDelivered
from slotq_core.model.notices.message import Message
from slotq_core.model.notices.rules import Receiver
from slotq_core.notices import payloads, signature
from slotq_core.notices.places import fault_in_slack_url, fault_in_url

Post = Callable[..., None]


class Sender:
    """Sends messages of one queue."""

    def __init__(
        self,
        client: Callable[[str], Any],
        *,
        queue: str,
        loopback: bool = False,
        post: Post = post,
    ) -> None:
        """`client` creates a client of boto3 for `sns`, `ssm` or `secretsmanager` on first use.
        `loopback`: whether webhooks may be on this machine."""
        self._client, self._queue = client, queue
        self._secrets = Secrets(client)
        self._loopback, self._post = loopback, post

    def send(self, message: Message, receiver: Receiver, *, now: int) -> None:
        if receiver.topic:
            self._publish(message, receiver.topic)
        elif receiver.slack:
            self._to_slack(message, receiver.slack, now)
        else:
            self._to_webhook(message, receiver, now)

    def _publish(self, message: Message, topic: str) -> None:
        request = payloads.sns_request(message, topic, self._queue)
        try:
            self._client("sns").publish(**request)
        except Exception as error:  # noqa: BLE001 - a right may miss, or the topic, or an answer
            raise NotDelivered(f"SNS does not take it ({reason(error)})") from None

    def _to_slack(self, message: Message, reference: str, now: int) -> None:
        url = self._secrets.value(reference, now=now)
        if fault := fault_in_slack_url(url, loopback=self._loopback):
            raise NotDelivered(fault)
        self._post(url, payloads.slack_body(message), {}, loopback=self._loopback)

    def _to_webhook(self, message: Message, receiver: Receiver, now: int) -> None:
        if fault := fault_in_url(receiver.webhook):
            raise NotDelivered(fault)  # Configured when the rules were others.
        key = self._secrets.value(receiver.secret, now=now)
        body = payloads.webhook_body(message, self._queue)
        headers = signature.headers(message.id, body, key, now)
        self._post(receiver.webhook, body, headers, loopback=self._loopback)
