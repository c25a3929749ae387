"""Notifications on DynamoDB: the outbox (`ports.notices.Outbox`), and changes of jobs from the
table's stream.

The stream delivers each committed change of an item at least once, in order for each item, with the
item before and after. So no crash loses the notification of a change, and the transactions that
make changes need no extra item.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Any

from slotq_core.adapters.dynamodb.calls import TableCalls
from slotq_core.adapters.dynamodb.layout import expressions, table
from slotq_core.adapters.dynamodb.layout.records import Item
from slotq_core.adapters.dynamodb.layout.validation import UNREADABLE, Sieve, key_of, whole_job
from slotq_core.adapters.dynamodb.transactions import Action, delete, put, update
from slotq_core.errors import Conflict, NotUnderstood
from slotq_core.model.jobs import Job
from slotq_core.model.notices import JobEvent
from slotq_core.notices.payloads import Message
from slotq_core.ports.notices import Counted, Pending
from slotq_core.timestamps import iso

KEPT = 30 * 86_400
"""How long (s) the mark of a composed message is stored. A stream may repeat a record for a day."""

_TRIES = 3


class DynamoOutbox:
    def __init__(self, calls: TableCalls) -> None:
        self._calls = calls

    def add(
        self,
        message: Message,
        *,
        now: int,
        due: int | None,
        counts_on: str | None = None,
    ) -> Pending | None:
        pending = Pending(message=message, due=now if due is None else due, since=now)
        name = self._calls.table
        mark: Item = {table.EXPIRES_AT: {"N": str(now // 1000 + KEPT)}}
        actions = [put(name, table.made_key(message.id), mark, expressions.is_new())]
        if due is not None:
            actions.append(put(name, _key(pending), _item(pending)))
        if counts_on is not None:
            key = table.digest_key(counts_on, message.notification)
            actions.append(update(name, key, expressions.count_event(message.event)))
        return pending if self._held(actions) else None

    def _held(self, actions: list[Action]) -> bool:
        """Run the transaction. Return whether its condition held; retry after a collision with
        another transaction."""
        for left in reversed(range(_TRIES)):
            try:
                self._calls.transact(actions)
            except Conflict as error:
                if type(error) is Conflict:
                    return False
                if not left:
                    raise
            else:
                return True
        return False

    def due(self, now: int, *, limit: int) -> list[Pending]:
        """Return the messages that are due. An unreadable one is left to an operator (`slotq
        doctor`), and delays no other."""
        wanted = expressions.partition_before(table.PENDING, f"{iso(now)}#~")
        items = self._calls.query(wanted, at_once=limit)
        return [*islice((due for item in items for due in Sieve().read([item], pending_of)), limit)]

    def move(self, pending: Pending, later: Pending) -> bool:
        if pending.due == later.due:
            later = replace(later, due=later.due + 1)
        name = self._calls.table
        return self._held(
            [
                delete(name, _key(pending), expressions.is_there()),
                put(name, _key(later), _item(later)),
            ]
        )

    def done(self, pending: Pending) -> None:
        self._calls.delete(_key(pending))

    def counted(self, *, before: str) -> list[Counted]:
        wanted = expressions.partition_before(table.DIGESTS, before)
        return Sieve().read(self._calls.query(wanted), _counted_of)

    def forget(self, counted: Counted) -> None:
        self._calls.delete(table.digest_key(counted.day, counted.notification))


def _key(pending: Pending) -> table.Key:
    return table.pending_key(pending.due, pending.message.id)


def _item(pending: Pending) -> Item:
    return {
        "message": {"S": json.dumps(asdict(pending.message))},
        "due": {"N": str(pending.due)},
        "since": {"N": str(pending.since)},
        "tries": {"N": str(pending.tries)},
    }


def pending_of(item: Item) -> Pending:
    try:
        message = Message(**json.loads(item["message"]["S"]))
    except UNREADABLE as error:
        raise ValueError("the message cannot be read") from error
    pending = Pending(
        message=message,
        due=int(item["due"]["N"]),
        since=int(item["since"]["N"]),
        tries=int(item["tries"]["N"]),
    )
    if _key(pending) != key_of(item):
        raise ValueError("the message belongs elsewhere")
    return pending


def _counted_of(item: Item) -> Counted:
    day, _, notification = item["sk"]["S"].partition("#")
    names = [str(event.value) for event in JobEvent]
    counts = {name: int(item[name]["N"]) for name in names if name in item}
    return Counted(day=day, notification=notification, counts=counts)


SOURCE = "aws:dynamodb"
VIEW = "NEW_AND_OLD_IMAGES"
"""The part of the job that the stream contains for each change."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobChange:
    """A job before and after a change."""

    before: Job | None
    after: Job


def sequence_of(record: Mapping[str, Any]) -> str:
    """Return the record's number in its shard."""
    return str(record["dynamodb"]["SequenceNumber"])


def change_in(record: Mapping[str, Any]) -> JobChange | None:
    """Return the change of a job; None if the record is about another item, or a job's removal.
    Raises NotUnderstood."""
    said = record["dynamodb"]
    if said["Keys"]["sk"]["S"] != table.JOB or "NewImage" not in said:
        return None
    before, after = whole_job(said.get("OldImage")), whole_job(said["NewImage"])
    if after is None or (before is None and "OldImage" in said):
        name = said["Keys"]["pk"]["S"].partition("#")[2]
        raise NotUnderstood(f"a change of job {name[:63]} cannot be read")
    return JobChange(before=before, after=after)
