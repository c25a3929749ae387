"""Asking for a pass (`ports.Notifier`): an asynchronous invocation of the queue manager itself."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from slotq_core.errors import SlotQError

PASS_EVENT = {"source": "slotq", "detail-type": "pass"}
"""What the queue manager takes for "run a pass"."""

_log = logging.getLogger(__name__)


class AsynchronousPass:
    """Invokes the function and does not wait.

    A call that fails is only logged: what asked for the pass is committed already, and the tick
    runs one within a minute.
    """

    def __init__(self, client: Callable[[], Any], function_name: str) -> None:
        """`client` makes boto3's Lambda client when it is first needed."""
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
            _log.warning("no pass was asked for (%s); the tick will run one", type(error).__name__)


class InlinePass:
    """Runs the pass on the spot, where nothing can be invoked: in the emulator and in SAM local.

    A pass that wakes again meanwhile is not entered twice: it goes on by itself, or the tick does.
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
            _log.warning("the pass has failed (%s); the tick runs the next", type(error).__name__)
        finally:
            self._running = False
