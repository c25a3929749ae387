"""The Lambda function that sends notifications about jobs (docs/notifications.md). Wiring only.

Two kinds of events invoke it: changes of jobs from the table's stream, and a schedule, every
minute. It decides nothing about jobs, and nothing waits for it. It calls addresses that operators
choose, so it has a role of its own, which may start, stop and change no job.

No request, secret or URL is ever logged: errors are logged by kind, and by place or rule.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import botocore
import botocore.session
from aws_lambda_powertools import Logger, Metrics, Tracer
from aws_lambda_powertools.metrics import MetricUnit
from botocore.config import Config

from slotq_core import __version__
from slotq_core.adapters.deployment_settings import SystemClock
from slotq_core.adapters.dynamodb.calls import TableCalls
from slotq_core.adapters.dynamodb.outbox.notices import (
    SOURCE,
    DynamoOutbox,
    JobChange,
    change_in,
    sequence_of,
)
from slotq_core.adapters.dynamodb.store import DynamoStore
from slotq_core.adapters.receivers.sending import Sender
from slotq_core.errors import NotUnderstood, SlotQError
from slotq_core.operations.notices import DeliveryResult, Notices

Event = Mapping[str, Any]

QUEUE = os.environ.get("POWERTOOLS_SERVICE_NAME", "slotq-notifier")

logger = Logger(service=QUEUE)
metrics = Metrics(namespace="SlotQ", service=QUEUE)
tracer = Tracer(service=QUEUE, auto_patch=False)
clock = SystemClock()


class Failed(Exception):
    """Raised when an event could not be handled, so that Lambda retries. Names only the kind of
    error."""


@tracer.capture_lambda_handler(capture_response=False, capture_error=False)
@metrics.log_metrics
def handler(event: Event, context: Any) -> dict[str, Any]:
    """Send notifications. Answer a batch of the stream with the first record that failed, if any:
    Lambda repeats the batch from there."""
    until = clock.now() + int(context.get_remaining_time_in_millis())
    records = event.get("Records")
    count("Notified", 0)
    try:
        if isinstance(records, list):
            return on_changes(records, until)
        return said(notices().look(until=until))
    except Exception as error:  # noqa: BLE001 - whatever it was, it must not carry contents out
        report(error)
        raise Failed(type(error).__name__) from None


def on_changes(records: list[Any], until: int) -> dict[str, Any]:
    """Handle each change in order. After a failure, the stream continues with that change: a
    message that was made already is not made again."""
    found, heard = list(changes_in(records)), 0
    try:
        changes = [(change.before, change.after) for _, change in found]
        for result in notices().hear(changes, until=until):
            said(result)
            heard += 1
    except SlotQError as error:
        report(error)
    return {
        "batchItemFailures": [
            {"itemIdentifier": sequence_of(record)} for record, _ in found[heard : heard + 1]
        ]
    }


def changes_in(records: list[Any]) -> Iterator[tuple[Event, JobChange]]:
    """Yield the changes of jobs. An unreadable one is logged and left out: it would delay all
    others for a day."""
    for record in records:
        try:
            change = change_in(record) if record.get("eventSource") == SOURCE else None
        except (NotUnderstood, KeyError, TypeError, AttributeError) as error:
            why = str(error) if isinstance(error, NotUnderstood) else type(error).__name__
            logger.error("this record cannot be understood", reason=why)
            count("Odd")
        else:
            if change is not None:
                yield record, change


def said(result: DeliveryResult) -> dict[str, Any]:
    """Count and log the outcome of messages; return the answer."""
    if result.delivered:
        count("Notified", result.delivered)
    for why in result.left:
        logger.warning("a notification is sent again later", why=why)
        count("NotifiedLater")
    for why in result.given_up:
        logger.error("a notification was given up", why=why)
        count("NotNotified")
    return {"delivered": result.delivered, "left": len(result.left)}


def report(error: Exception) -> None:
    """Log the kind and place of an error, never its text."""
    steps = traceback.extract_tb(error.__traceback__)
    where = [f"{step.filename}:{step.lineno} {step.name}" for step in steps]
    logger.error("failed", error=type(error).__name__, where=where)
    count("Failure")


def count(name: str, number: int = 1) -> None:
    metrics.add_metric(name=name, unit=MetricUnit.Count, value=number)


@cache
def notices() -> Notices:
    table = os.environ["SLOTQ_TABLE"]
    database = client("dynamodb")
    return Notices(
        DynamoStore(database, table, clock=clock.now),
        DynamoOutbox(TableCalls(database, table)),
        Sender(client, queue=table),
        clock,
    )


@cache
def client(service: str) -> Any:
    """Return a client with short timeouts, created once per cold start."""
    config = Config(
        connect_timeout=2,
        read_timeout=3,
        retries={"mode": "standard", "total_max_attempts": 2},
        user_agent=f"slotq/{__version__} Botocore/{botocore.__version__}",
    )
    return botocore.session.get_session().create_client(service, config=config)
