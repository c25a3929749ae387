"""Send messages by SNS, to Slack and to webhooks, with the secrets that an operator has stored. No
secret is ever logged or shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from slotq_core.adapters.receivers.https import post
from slotq_core.errors import NotDelivered
from slotq_core.model.notices import Receiver
from slotq_core.notices import payloads
from slotq_core.notices.payloads import Message
from slotq_core.notices.places import fault_in_slack_url, fault_in_url

KEPT = 300_000
"""How long (ms) a secret that was read is used: a changed one counts five minutes later."""

_LONGEST = 4096


class Secrets:
    def __init__(self, client: Callable[[str], Any]) -> None:
        """`client` creates a client of boto3 for `ssm` or `secretsmanager` on first use."""
        self._client = client
        self._read: dict[str, tuple[int, str]] = {}

    def value(self, reference: str, *, now: int) -> str:
        """Return the secret. Raises NotDelivered."""
        since, value = self._read.get(reference, (0, ""))
        if not value or now - since >= KEPT:
            value = self._fetched(reference)
            self._read[reference] = (now, value)
        return value

    def _fetched(self, reference: str) -> str:
        try:
            if reference.startswith("ssm:"):
                name = reference.removeprefix("ssm:")
                answer = self._client("ssm").get_parameter(Name=name, WithDecryption=True)
                value = answer["Parameter"]["Value"]
            else:
                answer = self._client("secretsmanager").get_secret_value(SecretId=reference)
                value = answer["SecretString"]
        except Exception as error:  # noqa: BLE001 - a right may miss, or the secret, or an answer
            raise NotDelivered(f"its secret cannot be read ({reason(error)})") from None
        value = str(value).strip()
        if not 0 < len(value) <= _LONGEST:
            raise NotDelivered("its secret is empty or too long")
        return value


def reason(error: Exception) -> str:
    """Return AWS's code of an error, or the error's kind. Never its text, which may quote."""
    answer = getattr(error, "response", None)
    code = answer.get("Error", {}).get("Code") if isinstance(answer, dict) else None
    return str(code or type(error).__name__)[:100]


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
        headers = payloads.headers(message.id, body, key, now)
        self._post(receiver.webhook, body, headers, loopback=self._loopback)
