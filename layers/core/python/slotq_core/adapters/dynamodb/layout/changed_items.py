"""The items that a change of a job writes and deletes, computed once for the commit.

A job's items are a function of the job, so a change writes the difference between before and after,
and no kind of change needs its own code.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from slotq_core.adapters.dynamodb.layout import table
from slotq_core.adapters.dynamodb.layout.items import Items, items_of, marks_of
from slotq_core.adapters.dynamodb.layout.records import Item, Value, write
from slotq_core.model.jobs import Job
from slotq_core.ports.stored import Change
from slotq_core.storage import stored_request
from slotq_core.storage.ends import expires_at, record_of
from slotq_core.timestamps import iso


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangedItems:
    """The items that a change writes and deletes."""

    key: table.Key
    """Of the JOB item."""
    job: Item
    """The job after the change."""
    main: Item
    """The JOB item: the job, and its expiry."""
    written: Items
    """The other items."""
    deleted: list[table.Key]
    marks: dict[str, int]
    """By pool whose partition the change writes, how the sum of marks changes; 0: not at all."""

    @property
    def count(self) -> int:
        """How many actions of a transaction these are."""
        return 1 + len(self.written) + len(self.deleted)


def changed_items(change: Change, history: int) -> ChangedItems:
    """Return what a change of a job changes. `history`: how long ended jobs are kept (ms)."""
    before, after = items_of(change.before), items_of(change.committed)
    key = table.job_key(change.before.name)
    job = main = after.pop(key)
    if (gone := expires_at(change.after, history)) is not None:
        parting = farewell(change.after, gone)
        main = {**job, **parting.pop(key)}
        after.update({} if change.before.terminal else parting)
    deleted = [*(before.keys() - after.keys() - {key}), *taken_back(change)]
    if change.request is not None:
        packed = stored_request.pack(change.request)
        after[table.request_key(change.after.name)] = request_item(change.after, packed)
    marks = Counter(marks_of(change.after))
    marks.subtract(marks_of(change.before))
    return ChangedItems(
        key=key,
        job=job,
        main=main,
        written={**after, **history_of(change), **_use_of(change, history)},
        deleted=deleted,
        marks=dict(marks),
    )


def request_item(job: Job, packed: bytes) -> Item:
    """Return the request's item. The entry time identifies the job, because a later job may have
    the same name."""
    return {"jobDetails": {"B": packed}, "entryTime": {"S": iso(job.entry_time)}}


def history_of(change: Change) -> Items:
    """Return the items that a change adds to a job's history: the attempt that begins, and the
    attempt that ends.

    The entry time on each record identifies the job, because a later job may have the same name.
    """
    entered = {"entryTime": {"S": iso(change.after.entry_time)}}
    name, began, items = change.after.name, change.after.attempt, Items()
    last = change.before.attempt
    if began and (last is None or last.number != began.number):
        items[table.attempt_key(name, began.number)] = {**write(began), **entered}
        items[table.name_key(began.training_job)] = {"jobName": {"S": name}, **entered}
    if change.ended:
        items[table.attempt_key(name, change.ended.number)] = {**write(change.ended), **entered}
    return items


def taken_back(change: Change) -> list[table.Key]:
    """Return the keys of the items that `history_of` has added for an attempt that a change takes
    back."""
    begun = Change(before=replace(change.before, attempt=None), after=change.before)
    return [] if not change.takes_back else [*history_of(begun)]


def farewell(job: Job, expires_at: int) -> Items:
    """Return the mark for an ended job's JOB item, and the note that its other records are to be
    marked. `expires_at`: seconds since the epoch."""
    mark: Value = {"N": str(expires_at)}
    note: Item = {
        "jobName": {"S": job.name},
        "entryTime": {"S": iso(job.entry_time)},
        "goesAt": mark,
    }
    return {
        table.job_key(job.name): {table.EXPIRES_AT: mark},
        table.history_key(job.changed_at, job.name): note,
    }


def _use_of(change: Change, history: int) -> Items:
    """Return the usage record of the attempt that the change ends, if any."""
    record = record_of(change, history)
    if record is None:
        return {}
    key = table.ended_partition(record.day), record.position
    return {key: {**write(record.use), table.EXPIRES_AT: {"N": str(record.expires_at)}}}
