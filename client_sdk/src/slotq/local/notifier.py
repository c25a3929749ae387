"""Notifies people of their jobs, as the deployed notifier does (docs/notifications.md).

The deployed notifier is a function behind the table's stream. Here a thread passes the stream's
records to the same code, twice a second, and runs its schedule. Webhooks may be on this machine.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from slotq.local.endpoint import Endpoint
from slotq.local.services.aws import TABLE
from slotq.local.services.moto_dynamodb import JobStream, attached
from slotq_core.adapters.deployment_settings import SystemClock
from slotq_core.adapters.dynamodb.calls import TableCalls
from slotq_core.adapters.dynamodb.notices import DynamoOutbox, change_in
from slotq_core.adapters.dynamodb.store import DynamoStore
from slotq_core.adapters.receivers.sending import Sender
from slotq_core.errors import NotUnderstood, SlotQError
from slotq_core.operations.notices import DeliveryResult, Notices

_PAUSE = 0.5
_SCHEDULE = 60.0
_BUDGET = 60_000
"""The time limit of a deployed handler (ms)."""


class EmulatorNotifier:
    """The notifier of an emulator."""

    def __init__(self, endpoint: Endpoint, *, say: Callable[[str], None] = print) -> None:
        self._clock, self._say = SystemClock(), say
        self._stream: JobStream = attached(TABLE, account=endpoint.account, region=endpoint.region)
        database = endpoint.client("dynamodb")
        self._notices = Notices(
            DynamoStore(database, TABLE),
            DynamoOutbox(TableCalls(database, TABLE)),
            Sender(endpoint.client, queue=TABLE, loopback=True),
            self._clock,
        )
        self._rang = time.monotonic()

    def run(self, closed: threading.Event) -> None:
        """Send notifications until the emulator is closed; retries failures."""
        while not closed.wait(_PAUSE):
            try:
                self.step()
            except SlotQError as error:
                self._say(f"notifications: {error}")

    def step(self) -> None:
        until = self._clock.now() + _BUDGET
        for record in self._stream.batch():
            try:
                change = change_in(record)
            except NotUnderstood as error:
                self._say(f"notifications: {error}")
                change = None
            if change is not None:
                for result in self._notices.hear([(change.before, change.after)], until=until):
                    self._report(result)
            self._stream.handled(1)
        if time.monotonic() - self._rang >= _SCHEDULE:
            self._rang = time.monotonic()
            self._report(self._notices.look(until=until))

    def _report(self, result: DeliveryResult) -> None:
        for why in (*result.left, *result.given_up):
            self._say(f"not notified: {why}")
