"""Notifies people of their jobs, as the deployed notifier does (docs/notifications.md).

The deployed notifier is a function behind the table's stream. Here a thread passes the stream's
records to the same code, twice a second, and runs its schedule. Webhooks may be on this machine.

The stream has changes of jobs, which is all that the function's filter admits, until they are
handled.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import count, islice
from typing import Any

from slotq.local.endpoint import Endpoint
from slotq.local.services.aws import TABLE
from slotq.local.services.dynamodb import Change, InMemoryDynamo
from slotq_core.adapters.deployment_settings import SystemClock
from slotq_core.adapters.dynamodb.calls import TableCalls
from slotq_core.adapters.dynamodb.layout.table import JOB
from slotq_core.adapters.dynamodb.outbox.notices import SOURCE, VIEW, DynamoOutbox, change_in
from slotq_core.adapters.dynamodb.store import DynamoStore
from slotq_core.adapters.receivers.sending import Sender
from slotq_core.errors import NotUnderstood, SlotQError
from slotq_core.model.jobs import Job
from slotq_core.operations.notices import DeliveryResult, Notices
from slotq_core.ports.surroundings import one_by_one

_PAUSE = 0.5
_SCHEDULE = 60.0
_BUDGET = 60_000
"""The time limit of a deployed handler (ms)."""


class JobStream:
    """The table's stream from now on."""

    def __init__(self, dynamo: InMemoryDynamo) -> None:
        self._records: deque[dict[str, Any]] = deque()
        self._numbers = count(1)
        dynamo.on_write = self._note

    def _note(self, changes: Sequence[Change]) -> None:
        for (pk, sk), before, after in changes:
            if sk != JOB or after is None:
                continue
            images = {"NewImage": dict(after)} | ({"OldImage": dict(before)} if before else {})
            record = {"Keys": {"pk": {"S": pk}, "sk": {"S": sk}}, **images}
            record |= {"SequenceNumber": str(next(self._numbers)), "StreamViewType": VIEW}
            kind = "MODIFY" if before else "INSERT"
            self._records.append({"eventSource": SOURCE, "eventName": kind, "dynamodb": record})

    def batch(self, most: int = 100) -> list[dict[str, Any]]:
        """Return the oldest records that are not handled."""
        return [*islice(self._records.copy(), most)]

    def handled(self, number: int) -> None:
        """Forget the oldest records."""
        for _ in range(number):
            self._records.popleft()


class EmulatorNotifier:
    """The notifier of an emulator."""

    def __init__(
        self, endpoint: Endpoint, dynamo: InMemoryDynamo, *, say: Callable[[str], None] = print
    ) -> None:
        self._clock, self._say = SystemClock(), say
        self._stream = JobStream(dynamo)
        self._notices = Notices(
            DynamoStore(dynamo, TABLE, in_parallel=one_by_one),
            DynamoOutbox(TableCalls(dynamo, TABLE)),
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
        records = self._stream.batch()
        if changes := [change for record in records if (change := self._change(record))]:
            for result in self._notices.hear(changes, until=until):
                self._report(result)
        self._stream.handled(len(records))
        if time.monotonic() - self._rang >= _SCHEDULE:
            self._rang = time.monotonic()
            self._report(self._notices.look(until=until))

    def _change(self, record: Mapping[str, Any]) -> tuple[Job | None, Job] | None:
        try:
            change = change_in(record)
        except NotUnderstood as error:
            self._say(f"notifications: {error}")
            return None
        return None if change is None else (change.before, change.after)

    def _report(self, result: DeliveryResult) -> None:
        for why in (*result.left, *result.given_up):
            self._say(f"not notified: {why}")
