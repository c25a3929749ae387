"""The items of the table: which there are, and what is in each. A job's items are a function of the
job alone. `records` writes the fields."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping
from dataclasses import replace

from slotq_core.adapters.dynamodb.layout import table
from slotq_core.adapters.dynamodb.layout.records import (
    Item,
    Value,
    demand,
    read,
    text,
    whole,
    write,
    write_demand,
)
from slotq_core.model.attempts import Attempt, Beneficiary, Restore
from slotq_core.model.demand import Demand
from slotq_core.model.groups import Group, Opening, StoredGroup
from slotq_core.model.jobs import Job, JobState
from slotq_core.model.nodes import Node, owner_of_node
from slotq_core.model.pools import Pool, PoolHealth, WarmSlot
from slotq_core.model.users import Yielded
from slotq_core.ports.callbacks import KeptCallback
from slotq_core.ports.stored import InParts, Ledger, PartsKind
from slotq_core.ports.training import Sighting
from slotq_core.ports.usage import DaySum
from slotq_core.privacy.identity import BY_DEFAULT
from slotq_core.storage.holdings import room_of, slots_of
from slotq_core.timestamps import from_iso, iso
from slotq_core.usage.attempt_use import AttemptUse

Items = dict[table.Key, Item]

MOST_COUNTED = 1 << 62
"""Upper bound of counters, far below DynamoDB's 38 digits, so that one more can be added."""

NEW_AGE = 1 << 40
"""The value from which an unreadable counter continues: far above any value ever seen."""

_USED, _FREE, _FOREIGN = "used_", "free_", "foreign_"
_GPU, _JOB = "gpu_", "job_"

PERSON = "person"
"""The attribute of a node that says whose job came last."""


def items_of(job: Job) -> Items:
    """Return every item that stores the job, except its request and its history."""
    attributes = write(job)
    items = {table.job_key(job.name): attributes}
    for key in copies_of(job):
        items[key] = {"job": {"M": attributes}}
    return items


def copies_of(job: Job) -> list[table.Key]:
    """Return the keys of the job's copies, where a pass looks for a job in this state."""
    if job.attempt and job.attempt.node:
        return [table.on_node_key(job.attempt.pool, job.name)]
    if job.attempt:
        return [table.active_key(pool, job.name) for pool, _ in job.holds]
    if job.not_before is not None:
        return [table.due_key(job.not_before, job.name)]
    if job.terminal:
        return [table.due_key(job.changed_at, job.name)] if job.followed else []
    if job.waits_for:
        return [table.after_key(awaited, job.name) for awaited in job.waits_for]
    if not job.waits:
        return []
    claim = [table.claim_key(job.claim.pool, job.name)] if job.claim else []
    return [table.waiting_key(job), *claim]


def entry_time_of(record: Mapping[str, Value]) -> str | None:
    """Return the entry time of the job that a history record belongs to. None: the record is older
    than this attribute. Names were unique then, so the record belongs to the only job of its
    name."""
    entered = record.get("entryTime")
    return entered.get("S") if entered else None


def marks_of(job: Job) -> dict[str, int]:
    """Return, by pool, the job's marks: what the job adds to `holders` in the pool's ledger."""
    if job.attempt:
        return {pool: mark(job) for pool, _ in slots_of(job)}
    if job.waits and job.claim:
        return {job.claim.pool: mark(job)}
    return {}


def marks_on_nodes(job: Job) -> dict[str, int]:
    """Return, by pool, what a job on a node adds to `onNodes` in the pool's ledger."""
    on_node = job.attempt and job.attempt.node
    return {job.attempt.pool: mark(job)} if job.attempt and on_node else {}


def mark(job: Job) -> int:
    """Return the mark for a job that holds or claims slots: 32 bits of a hash of its kind and name.

    Marks are small enough that sums of many stay exact everywhere. They are part of the table's
    format: never change them.
    """
    kind = "claim" if job.waits else "stopping" if job.state is JobState.STOPPING else "active"
    return _mark(f"{kind}#{job.name}")


def node_mark(node: Node) -> int:
    """Return the mark of a node's HELD item."""
    return _mark(f"node#{node.name}#{node.generation}")


def warm_mark(slot: WarmSlot) -> int:
    """Return the mark of a WARM item. It changes with each version, as the item does."""
    return _mark(f"warm#{slot.training_job}#{slot.version}")


def warm_of(item: Mapping[str, Value]) -> WarmSlot:
    """Return the warm slot in a WARM item."""
    slot = WarmSlot(**read(WarmSlot, item))
    if table.warm_key(slot.pool, slot.training_job) != (text(item["pk"]), text(item["sk"])):
        raise ValueError(f"it is of {slot.training_job} in {slot.pool}")
    counted(item["version"])
    return slot


def _mark(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4])


def job_of(item: Mapping[str, Value]) -> Job:
    """Return the job in its own item or in any copy."""
    found = read(Job, item["job"]["M"] if "job" in item else item)
    found.setdefault("person", BY_DEFAULT.person(found.get("submitter", "")))
    return Job(**found)


def attempt_of(item: Mapping[str, Value]) -> Attempt:
    return Attempt(**read(Attempt, item))


def beneficiary_of(attributes: Mapping[str, Value]) -> Beneficiary:
    return Beneficiary(**read(Beneficiary, attributes))


def use_of_attempt(item: Mapping[str, Value]) -> AttemptUse:
    """Return the record of an ended attempt's use. Raises ValueError if it cannot be."""
    return AttemptUse(**read(AttemptUse, item)).checked()


def day_sum_of(item: Mapping[str, Value]) -> DaySum:
    return DaySum(**read(DaySum, item))


def callback_of(item: Mapping[str, Value]) -> KeptCallback:
    """Return who waits for a job's end."""
    kept = KeptCallback(**read(KeptCallback, item))
    if table.callback_key(kept) != (text(item["pk"]), text(item["sk"])):
        raise ValueError("the callback belongs elsewhere")
    return kept


def pool_of(item: Mapping[str, Value]) -> Pool:
    return Pool(**read(Pool, item))


def health_of(item: Mapping[str, Value]) -> PoolHealth:
    return PoolHealth(**read(PoolHealth, item))


def sighting_of(item: Mapping[str, Value]) -> Sighting:
    return Sighting(**read(Sighting, item))


def yielded_of(item: Mapping[str, Value]) -> Yielded:
    return Yielded(**read(Yielded, item))


def counted(value: Value) -> int:
    """Return a number that rises by one with each change, and that commits are conditioned on.
    Raises one of `validation.UNREADABLE` for what counting from 1 cannot have made: no commit could
    rely on it."""
    number = whole(value)
    if not 0 < number < MOST_COUNTED:
        raise ValueError(f"{number} is no count of changes")
    return number


def ledger_of(item: Mapping[str, Value]) -> Ledger:
    """Return the ledger; version 0 only if there is no item."""
    return Ledger(version=counted(item["version"]) if item else 0, used=_amounts(item, _USED))


def stored_group_of(item: Mapping[str, Value]) -> StoredGroup:
    group = Group(**read(Group, item))
    return StoredGroup(group=group, **read(StoredGroup, item))


def write_group(stored: StoredGroup) -> Item:
    """Return a group and its stored data, as one item. Version 0.2.0 reads no group without a
    project and a time."""
    known: Item = {"project": {"S": stored.project}, "at": {"N": str(stored.at)}}
    return {**write(stored.group), **known, **write(stored)}


def in_parts_of(item: Mapping[str, Value]) -> InParts:
    """Return a decision in parts."""
    try:
        stored = json.loads(zlib.decompress(item["steps"]["B"]))
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if not stored:
        raise ValueError("it changes no job")
    return InParts(
        number=whole(item["number"]),
        kind=PartsKind(text(item["kind"])),
        steps=tuple((job_of(before), job_of(after)) for before, after in stored),
    )


def write_in_parts(decision: InParts) -> Item:
    """Return a decision in parts. The jobs of a group are similar, so a compressed one takes some
    hundred bytes."""
    stored = [[write(job) for job in step] for step in decision.steps]
    packed = zlib.compress(json.dumps(stored, separators=(",", ":")).encode())
    return {
        "number": {"N": str(decision.number)},
        "kind": {"S": decision.kind.value},
        "steps": {"B": packed},
    }


def opening_of(item: Mapping[str, Value]) -> Opening:
    return Opening(
        name=text(item["name"]),
        digest=text(item["digest"]),
        at=whole(item["at"]),
        members=tuple(text(name) for name in item.get("members", {"L": []})["L"]),
        withdrawn="withdrawn" in item,
    )


def history_note_of(item: Mapping[str, Value]) -> tuple[str, Value, Value]:
    """Return the name of an ended job whose records are to be marked, its entry time, and when the
    records may go."""
    return (
        text(item["jobName"]),
        {"S": text(item["entryTime"])},
        {"N": str(whole(item["goesAt"]))},
    )


def restore_of(item: Mapping[str, Value]) -> Restore:
    """Return when the table was copied and restored. Raises one of UNREADABLE, also for moments
    that cannot be (`iso`), or not in this order."""
    copied_at, restored_at = (from_iso(text(item[name])) for name in ("copiedAt", "restoredAt"))
    if iso(copied_at) > iso(restored_at):
        raise ValueError("the copy is later than its restore")
    return Restore(copied_at=copied_at, restored_at=restored_at)


def write_restore(restore: Restore) -> Item:
    return {
        "copiedAt": {"S": iso(restore.copied_at)},
        "restoredAt": {"S": iso(restore.restored_at)},
    }


def node_of(item: Mapping[str, Value]) -> Node:
    """Return the node in its own item."""
    node = Node(**read(Node, item))
    if table.node_key(node.pool, node.name) != (text(item["pk"]), text(item["sk"])):
        raise ValueError(f"it is another node, {node.name} of {node.pool}")
    counted(item["version"])
    return replace(node, idle_since=None) if jobs_on(item) else node


def jobs_on(item: Mapping[str, Value]) -> dict[str, int]:
    """Return the jobs on a node, with the numbers of their attempts. Raises ValueError if they are
    not as many as the node counts."""
    jobs = {
        name.removeprefix(_JOB): whole(value)
        for name, value in item.items()
        if name.startswith(_JOB)
    }
    if len(jobs) != whole(item["jobs"]):
        raise ValueError(f"it counts {whole(item['jobs'])} jobs, and names {len(jobs)}")
    return jobs


def room_in(item: Mapping[str, Value]) -> dict[str, int]:
    """Return what is free on a node, by attribute."""
    return {name: whole(value) for name, value in item.items() if name.startswith((_GPU, _FREE))}


def room_attributes(gpus: Mapping[int, int], amounts: Mapping[str, int]) -> dict[str, int]:
    """Return what is free on a node, by attribute: hundredths of each GPU, and other resources."""
    free = {gpu_attribute(index): amount for index, amount in gpus.items()}
    return free | {free_attribute(name): amount for name, amount in amounts.items()}


def write_node(node: Node) -> Item:
    """Return a node without jobs."""
    room = room_attributes(*room_of(node, ()))
    free: Item = {name: {"N": str(amount)} for name, amount in {**room, "jobs": 0}.items()}
    return {**write(node), **free}


def write_node_slot(node: Node) -> Item:
    """Return the HELD item of a node: its slot, and the node as it started."""
    return {**write_held(node.demand, node_mark(node)), "node": {"M": write(node)}}


def node_in_slot(item: Mapping[str, Value]) -> Node | None:
    """Return the node in a HELD item, as it started; None: the item is not of a node."""
    if "node" not in item:
        return None
    node = Node(**read(Node, item["node"]["M"]))
    if table.node_slot_key(node.pool, node.name) != (text(item["pk"]), text(item["sk"])):
        raise ValueError(f"it is of another node, {node.name} of {node.pool}")
    return node


def write_node_name(node: Node) -> Item:
    """Return the NAME item of a node's training job. No job has the name that it names, so an
    earlier version takes it for one of a job that is put aside, and leaves the training job
    alone."""
    return {"jobName": {"S": owner_of_node(node.pool, node.name)}}


def demand_of(item: Mapping[str, Value]) -> Demand:
    """Return what a HELD item keeps."""
    return demand(item["demand"])


def write_held(kept: Demand, marks: int) -> Item:
    """Return a HELD item: slots kept for an unreadable job, and its part of the ledger's
    `holders`."""
    return {"demand": write_demand(kept), "holders": {"N": str(marks)}}


def marks_in(item: Mapping[str, Value]) -> int:
    """Return the `holders` of a LEDGER or HELD item."""
    return whole(item.get("holders", {"N": "0"}))


def marks_on_nodes_in(ledger: Mapping[str, Value]) -> int:
    """Return the `onNodes` of a LEDGER item."""
    return whole(ledger.get("onNodes", {"N": "0"}))


def since_of(ledger: Mapping[str, Value]) -> int:
    """Return the revision of the configuration from which the ledger holds; 0: any."""
    return whole(ledger.get("since", {"N": "0"}))


def free_of(ledger: Mapping[str, Value]) -> Demand | None:
    """Return what is free; None if the pool is not open and admits nothing."""
    return _amounts(ledger, _FREE) if free_attribute("slots") in ledger else None


def foreign_of(ledger: Mapping[str, Value]) -> Demand:
    return _amounts(ledger, _FOREIGN)


def _amounts(ledger: Mapping[str, Value], prefix: str) -> Demand:
    return Demand(
        {
            name.removeprefix(prefix): whole(value)
            for name, value in ledger.items()
            if name.startswith(prefix)
        }
    )


def used_attribute(resource: str) -> str:
    return f"{_USED}{resource}"


def gpu_attribute(index: int) -> str:
    return f"{_GPU}{index}"


def job_attribute(job: str) -> str:
    return f"{_JOB}{job}"


def free_attribute(resource: str) -> str:
    return f"{_FREE}{resource}"


def foreign_attribute(resource: str) -> str:
    return f"{_FOREIGN}{resource}"


def keyed(key: table.Key, item: Mapping[str, Value] | None = None) -> dict[str, Value]:
    """Return an item with its key, or the key alone."""
    return {"pk": {"S": key[0]}, "sk": {"S": key[1]}, **(item or {})}
