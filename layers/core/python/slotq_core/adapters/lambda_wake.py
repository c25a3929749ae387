"""Ask for a pass (`ports.Notifier`) by an asynchronous invocation of the queue manager."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from slotq_core.errors import SlotQError

PASS_EVENT = {"source": "slotq", "detail-type": "pass"}
"""The event that the queue manager reads as "run a pass"."""

_log = logging.getLogger(__name__)


class AsynchronousPass:
    """Invokes the function and does not wait.

    A failed call is only logged: the change behind the request is already committed, and the tick
    runs a pass within a minute.
    """

    def __init__(self, client: Callable[[], Any], function_name: str) -> None:
        """Set up the notifier. `client` creates boto3's Lambda client on first use."""
        self._client = client
        self._function_name = function_name

    def wake(self) -> None:
        try:
            self._client().invoke(
                FunctionName=self._function_name,
                InvocationType="Event",
                Payload=json.dumps(PASS_EVENT).encode(),
            )
        except (BotoCoreError, ClientError) as error:
            _log.warning(
                ("the request for a pass failed (%s); the next tick runs one"), type(error).__name__
            )


class InlinePass:
    """Runs the pass on the spot, for the emulator and SAM local, where nothing can be invoked.

    A wake during a pass starts no second pass: the running pass, or the tick, does the work.
    """

    def __init__(self, run_pass: Callable[[], object]) -> None:
        self._run_pass = run_pass
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
