"""The items that a change of a job writes and deletes, computed once for the commit.

A job's items are a function of the job, so a change writes the difference between before and after,
and no kind of change needs its own code.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from slotq_core.adapters.dynamodb.layout import table
from slotq_core.adapters.dynamodb.layout.items import (
    Items,
    items_of,
    marks_of,
    marks_on_nodes,
    node_mark,
    write_node,
    write_node_name,
    write_node_slot,
)
from slotq_core.adapters.dynamodb.layout.records import Item, Value, write
from slotq_core.model.jobs import Job
from slotq_core.ports.stored import Change, NodeChange
from slotq_core.storage import stored_request
from slotq_core.storage.ends import EndedRecord, expires_at, record_of
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
    on_nodes: dict[str, int]
    """The same of the marks of jobs on nodes."""

    @property
    def pools(self) -> set[str]:
        """The pools whose partitions the change writes."""
        return {*self.marks, *self.on_nodes}

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
    marks, on_nodes = Counter(marks_of(change.after)), Counter(marks_on_nodes(change.after))
    marks.subtract(marks_of(change.before))
    on_nodes.subtract(marks_on_nodes(change.before))
    return ChangedItems(
        key=key,
        job=job,
        main=main,
        written={**after, **history_of(change), **_use_of(change, history)},
        deleted=deleted,
        marks=dict(marks),
        on_nodes=dict(on_nodes),
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


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangedNode:
    """The items that a change of a node writes and deletes, besides the node's own."""

    pool: str
    starts: str
    """The token of a node that starts; empty: it does not."""
    written: Items
    deleted: list[table.Key]
    mark: int
    """How the sum of marks of the pool's ledger changes; 0: the pool's partition does not."""


def changed_node(change: NodeChange) -> ChangedNode:
    """Return what the start or the end of a node changes."""
    node = change.committed or change.node
    slot, name = table.node_slot_key(node.pool, node.name), table.name_key(node.training_job)
    starts, ends = change.starts, change.ends
    return ChangedNode(
        pool=node.pool,
        starts=node.token if starts else "",
        written={slot: write_node_slot(node), name: write_node_name(node)} if starts else {},
        deleted=[slot, name] if ends else [],
        mark=node_mark(node) * (starts - ends),
    )


def node_attributes(change: NodeChange) -> tuple[Item, list[str]]:
    """Return the attributes of a node that a change sets, and those that it removes."""
    if change.before is None or change.committed is None:
        return {}, []
    before, after = write(change.before), write(change.committed)
    if change.before.contents != change.committed.contents:
        before, after = write_node(change.before), write_node(change.committed)
    written = {name: value for name, value in after.items() if before.get(name) != value}
    return written, sorted(before.keys() - after.keys())


def _use_of(change: Change, history: int) -> Items:
    """Return the usage record of the attempt that the change ends, if any."""
    record = record_of(change, history)
    if record is None:
        return {}
    return {(table.ended_partition(record.day), record.position): use_item(record)}


def use_item(record: EndedRecord) -> Item:
    return {**write(record.use), table.EXPIRES_AT: {"N": str(record.expires_at)}}
