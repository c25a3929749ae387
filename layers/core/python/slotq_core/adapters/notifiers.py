"""Ways to request a pass (`ports.surroundings.Notifier`): by an asynchronous invocation or on the
spot; and later, by a delayed message or a timer of this process.

None of them raises, and each request may be lost: the tick runs the pass then.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from botocore.exceptions import BotoCoreError, ClientError

from slotq_core.errors import SlotQError
from slotq_core.ports.surroundings import LONGEST_DELAY, Clock

WAKES_VARIABLE = "SLOTQ_WAKES"
"""The URL of the queue whose messages invoke the queue manager."""

MARGIN = 1
"""Seconds that are added to a message's delay: the receiving handler's clock may be behind this
one's, and a pass that is too early changes nothing."""


class Alarm(Protocol):
    def ring_at(self, at: int) -> None:
        """Call for a pass at that moment (ms), or a little later. Returns at once."""


class MessageAlarm:
    """Sends a delayed message to a queue that invokes the queue manager."""

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
    """Waits in this process, for the emulator and SAM local. The request is lost if the process
    ends."""

    def __init__(self, ring: Callable[[], None], clock: Clock) -> None:
        self._ring = ring
        self._clock = clock

    def ring_at(self, at: int) -> None:
        timer = threading.Timer(max(0, at - self._clock.now()) / 1000, self._ring)
        timer.daemon = True
        timer.start()


PASS_EVENT = {"source": "slotq", "detail-type": "pass"}
"""The event for "run a pass, unless another pass has handled the same news"."""

WAKE_EVENT = {"source": "slotq", "detail-type": "wake"}
"""The event for "run a pass: a time has come that an earlier pass named"."""

_log = logging.getLogger(__name__)


def invoke(client: Callable[[], Any], function_name: str, event: Mapping[str, str]) -> None:
    """Invoke the function with one of these events, and do not wait.

    A failed call is only logged: the change behind the request is already committed, and the tick
    runs a pass within a minute. `client` creates boto3's Lambda client on first use.
    """
    try:
        client().invoke(
            FunctionName=function_name,
            InvocationType="Event",
            Payload=json.dumps(event).encode(),
        )
    except (BotoCoreError, ClientError) as error:
        _log.warning(
            ("the request for a pass failed (%s); the next tick runs one"), type(error).__name__
        )


class AsynchronousPass:
    """Requests a pass by invoking the function, at once or when the alarm fires."""

    def __init__(self, client: Callable[[], Any], function_name: str, alarm: Alarm) -> None:
        self._client = client
        self._function_name = function_name
        self._alarm = alarm

    def wake(self) -> None:
        invoke(self._client, self._function_name, PASS_EVENT)

    def wake_at(self, at: int) -> None:
        self._alarm.ring_at(at)


class InlinePass:
    """Runs the pass on the spot, for the emulator and SAM local, where nothing can be invoked.

    A wake during a pass starts no second pass: the running pass, or the tick, does the work.
    """

    def __init__(self, run_pass: Callable[[], object], alarm: Alarm) -> None:
        self._run_pass = run_pass
        self._alarm = alarm
        self._running = False

    def wake(self) -> None:
        if self._running:
            return
        self._running = True
        try:
            self._run_pass()
        except SlotQError as error:
            _log.warning("the pass failed (%s); the next tick runs another", type(error).__name__)
        finally:
            self._running = False

    def wake_at(self, at: int) -> None:
        self._alarm.ring_at(at)
