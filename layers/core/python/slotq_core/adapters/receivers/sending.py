"""Send one message by its channel (`notices.channels`), with the secrets that an operator has
stored. No secret is ever logged or shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from slotq_core.adapters.receivers.https import post
from slotq_core.errors import NotDelivered
from slotq_core.model.notices import Receiver
from slotq_core.notices import channels
from slotq_core.notices.channels import CHANNELS, Sending, ServiceCall
from slotq_core.notices.payloads import Message

KEPT = 300_000
"""How long (ms) a secret is cached: a changed secret takes effect five minutes later."""

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
    """Return AWS's code of an error, or the error's kind. Never the text, which may contain
    secrets."""
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
        channel = CHANNELS.get(receiver.channel)
        if channel is None:
            raise NotDelivered("the rule names no receiver")
        sending = Sending(
            queue=self._queue,
            now=now,
            kept=lambda reference: self._secrets.value(reference, now=now),
            loopback=self._loopback,
        )
        match channel.call(message, receiver, sending):
            case channels.Post(url=url, body=body, headers=headers):
                self._post(url, body, headers, loopback=self._loopback)
            case ServiceCall() as call:
                self._call(call)

    def _call(self, call: ServiceCall) -> None:
        client = self._client(call.service)
        try:
            getattr(client, call.operation)(**call.arguments)
        except Exception as error:  # noqa: BLE001 - a right may miss, or the topic, or an answer
            service = call.service.upper()
            raise NotDelivered(f"{service} does not take it ({reason(error)})") from None
