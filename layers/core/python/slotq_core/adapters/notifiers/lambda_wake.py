"""Ask for a pass (`ports.Notifier`) by an asynchronous invocation of the queue manager, or later by
an alarm (`adapters.notifiers.alarms`)."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from slotq_core.adapters.notifiers.alarms import Alarm
from slotq_core.errors import SlotQError

PASS_EVENT = {"source": "slotq", "detail-type": "pass"}
"""The event that the queue manager reads as "run a pass, unless another has for the same news"."""

WAKE_EVENT = {"source": "slotq", "detail-type": "wake"}
"""The event that the queue manager reads as "run a pass: time has come for something"."""

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
    """Asks by invocations of the function, at once or when the alarm rings."""

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
