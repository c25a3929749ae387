"""Send one message by its channel (`notices.channels`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from slotq_core.adapters.receivers.https import post
from slotq_core.adapters.receivers.secrets import Secrets, reason
from slotq_core.errors import NotDelivered
from slotq_core.model.notices.message import Message
from slotq_core.model.notices.rules import Receiver
from slotq_core.notices import channels
from slotq_core.notices.channels import CHANNELS, Call, Sending

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
            case Call() as call:
                self._call(call)

    def _call(self, call: Call) -> None:
        client = self._client(call.service)
        try:
            getattr(client, call.operation)(**call.arguments)
        except Exception as error:  # noqa: BLE001 - a right may miss, or the topic, or an answer
            service = call.service.upper()
            raise NotDelivered(f"{service} does not take it ({reason(error)})") from None
