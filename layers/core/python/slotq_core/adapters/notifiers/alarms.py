"""Call for a pass later: by a delayed message, or by a timer of this process.

Neither raises, and either may be lost: the tick runs the pass then.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from typing import Any, Protocol

from slotq_core.ports.surroundings import LONGEST_DELAY, Clock

WAKES_VARIABLE = "SLOTQ_WAKES"
"""The URL of the queue whose messages invoke the queue manager."""

MARGIN = 1
"""Seconds that a message comes later than asked: the clock of the handler that gets it may be
behind this one's, and a pass that comes too early changes nothing."""

_log = logging.getLogger(__name__)


class Alarm(Protocol):
    def ring_at(self, at: int) -> None:
        """Call for a pass at that moment (ms), or a little later. Returns at once."""


class MessageAlarm:
    """Sends a message with a delay, to a queue that invokes the queue manager."""

    def __init__(self, client: Callable[[], Any], url: str, clock: Clock) -> None:
        """Set up the alarm. `client` creates boto3's SQS client on first use."""
        self._client = client
        self._url = url
        self._clock = clock

    def ring_at(self, at: int) -> None:
        delay = -(-(at - self._clock.now()) // 1000) + MARGIN
        try:
            self._client().send_message(
                QueueUrl=self._url,
                DelaySeconds=min(max(0, delay), LONGEST_DELAY // 1000),
                MessageBody=json.dumps({"at": at}),
            )
        except Exception as error:  # noqa: BLE001 - the tick does without
            _log.warning(
                "a pass could not be asked for later (%s); a tick runs it", type(error).__name__
            )


class TimerAlarm:
    """Waits in this process, for the emulator and SAM local: a process that ends forgets it."""

    def __init__(self, ring: Callable[[], None], clock: Clock) -> None:
        self._ring = ring
        self._clock = clock

    def ring_at(self, at: int) -> None:
        timer = threading.Timer(max(0, at - self._clock.now()) / 1000, self._ring)
        timer.daemon = True
        timer.start()
