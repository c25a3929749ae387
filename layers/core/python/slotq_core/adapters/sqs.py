"""The dead letters (`ports.DeadLetters`) as an SQS queue.

A letter is JSON: {kind, subject, reason, at}. It says what could not be understood and why, never
what was in it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from slotq_core.ports import Clock
from slotq_core.timestamps import iso

QUEUE_VARIABLE = "SLOTQ_DEAD_LETTERS"
"""The queue's URL."""

_LONGEST = 1000


class SqsDeadLetters:
    """Never raises: a letter that cannot be sent is reported, and that is all."""

    def __init__(
        self,
        client: Callable[[], Any],
        url: str,
        *,
        clock: Clock,
        report: Callable[[Exception], None],
    ) -> None:
        """`client` makes boto3's SQS client when it is first needed; with an empty `url` every
        letter is only reported by whoever wrote it."""
        self._client = client
        self._url = url
        self._clock = clock
        self._report = report

    def put(self, kind: str, subject: str, reason: str) -> None:
        if not self._url:
            return
        letter = {
            "kind": kind,
            "subject": subject[:_LONGEST],
            "reason": reason[:_LONGEST],
            "at": iso(self._clock.now()),
        }
        try:
            self._client().send_message(QueueUrl=self._url, MessageBody=json.dumps(letter))
        except Exception as error:  # noqa: BLE001 - there is nobody left to tell
            self._report(error)
