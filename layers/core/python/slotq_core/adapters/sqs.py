"""The dead letters (`ports.DeadLetters`) as an SQS queue.

A letter is JSON: {kind, subject, reason, at}. A letter says what could not be understood and why,
never its contents.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from slotq_core.ports.surroundings import Clock
from slotq_core.timestamps import iso

QUEUE_VARIABLE = "SLOTQ_DEAD_LETTERS"
"""The queue's URL."""

_LONGEST = 1000


class SqsDeadLetters:
    """Sends dead letters. Never raises: a letter that cannot be sent is only reported."""

    def __init__(
        self,
        client: Callable[[], Any],
        url: str,
        *,
        clock: Clock,
        report: Callable[[Exception], None],
    ) -> None:
        """Set up the sender. `client` creates boto3's SQS client on first use. With an empty `url`,
        nothing is sent."""
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
        except Exception as error:  # noqa: BLE001 - no receiver is left to report to
            self._report(error)
