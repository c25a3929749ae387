"""Convert between items and model. A job's items are a function of the job alone.

An item leaves out fields that have their default, and reading restores the default: a new field in
a release needs no migration. A job's person has the one that the default patterns give.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, replace
from enum import StrEnum
from typing import Any, get_args

from slotq_core.adapters.dynamodb.layout import table
from slotq_core.adapters.dynamodb.layout.sweep_text import packed, unpacked
from slotq_core.model.attempts import (
    Attempt,
    AttemptOutcome,
    Beneficiary,
    Restore,
    StopCause,
    StopOrder,
)
from slotq_core.model.demand import Demand
from slotq_core.model.groups import Group, Opening, StoredGroup
from slotq_core.model.jobs import Claim, Job, JobState, Workload
from slotq_core.model.pools import (
    CheckpointRule,
    MissingRight,
    OnStall,
    Pool,
    PoolHealth,
    PoolState,
)
from slotq_core.model.users import Yielded
from slotq_core.ports.stored import Change, InParts, Ledger, PartsKind
from slotq_core.ports.training import Sighting
from slotq_core.ports.usage import DaySum
from slotq_core.privacy.identity import BY_DEFAULT
from slotq_core.timestamps import from_iso, iso
from slotq_core.usage.attempt_use import AttemptUse, PartUse
from slotq_core.wire.pool_definition import may_have

Value = Mapping[str, Any]
"""One attribute in DynamoDB's own form, for example `{"S": "text"}`."""
Item = dict[str, Value]
Items = dict[table.Key, Item]
Record = (
    Job
    | Attempt
    | StopOrder
    | Beneficiary
    | Claim
    | Pool
    | PoolHealth
    | MissingRight
    | Sighting
    | AttemptUse
    | DaySum
    | Yielded
)

MOST_COUNTED = 1 << 62
"""Upper bound on what rises by one, far below DynamoDB's 38 digits, so that one more can be
added."""

NEW_AGE = 1 << 40
"""What an unreadable count goes on from: far above any count that was ever seen."""

_USED, _FREE, _FOREIGN = "used_", "free_", "foreign_"


def items_of(job: Job) -> Items:
    """Return every item that stores the job, except its request and its history."""
    attributes = write(job)
    items = {table.job_key(job.name): attributes}
    for key in copies_of(job):
        items[key] = {"job": {"M": attributes}}
    return items


def copies_of(job: Job) -> list[table.Key]:
    """Return the keys of the job's copies, where a pass looks for a job in this state."""
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


def history_of(change: Change) -> Items:
    """Return what a change adds to a job's history: the attempt that begins, and the attempt that
    ends.

    The entry time on each record says which job it belongs to: a later job may have the same name.
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
    """Return the keys of what `history_of` has added for an attempt that a change takes back."""
    begun = Change(before=replace(change.before, attempt=None), after=change.before)
    return [] if not change.takes_back else [*history_of(begun)]


def entry_time_of(record: Mapping[str, Value]) -> str | None:
    """Return the entry time of the job that a history record belongs to. None: the record is older
    than this attribute. Names were not used again then, so the record belongs to the only job of
    its name."""
    entered = record.get("entryTime")
    return entered.get("S") if entered else None


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


def marks_of(job: Job) -> dict[str, int]:
    """Return, by pool, the job's marks: what the job adds to `holders` in the pool's ledger."""
    if job.attempt:
        return {pool: mark(job) for pool, _ in job.holds}
    if job.waits and job.claim:
        return {job.claim.pool: mark(job)}
    return {}


def mark(job: Job) -> int:
    """Return the mark for a job that holds or claims slots: 32 bits of a hash of its kind and name.

    Marks are small enough that sums of many stay exact everywhere. They are part of the table's
    format: never change them.
    """
    kind = "claim" if job.waits else "stopping" if job.state is JobState.STOPPING else "active"
    return int.from_bytes(hashlib.sha256(f"{kind}#{job.name}".encode()).digest()[:4])


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
    number = _whole(value)
    if not 0 < number < MOST_COUNTED:
        raise ValueError(f"{number} is no count of changes")
    return number


def ledger_of(item: Mapping[str, Value]) -> Ledger:
    """Return the ledger; version 0 only if there is no item."""
    return Ledger(version=counted(item["version"]) if item else 0, used=_amounts(item, _USED))


def stored_group_of(item: Mapping[str, Value]) -> StoredGroup:
    group = Group(
        name=_text(item["name"]),
        members=_texts(item["members"]),
        max_parallel=_whole(item["maxParallel"]) if "maxParallel" in item else None,
        min_members=_whole(item["minMembers"]) if "minMembers" in item else None,
        mandatory=_texts(item.get("mandatory", {"L": []})),
        same_pool=item.get("samePool", {"BOOL": False})["BOOL"] is True,
        ends_with=_text(item["endsWith"]) if "endsWith" in item else "",
        sites={name: _text(site) for name, site in item.get("sites", {"M": {}})["M"].items()},
        heartbeat=_whole(item["heartbeat"]) if "heartbeat" in item else None,
    )
    return StoredGroup(
        group=group,
        submitter=_text(item["submitter"]),
        project=_text(item["project"]),
        digest=_text(item["digest"]),
        at=_whole(item["at"]),
        rendezvous=_text(item["rendezvous"]) if "rendezvous" in item else "",
        sweep=unpacked(item["sweep"]["B"]) if "sweep" in item else None,
        met_by=_text(item["metBy"]) if "metBy" in item else "",
    )


def write_group(stored: StoredGroup) -> Item:
    group = stored.group
    rules: Item = {}
    if group.max_parallel is not None:
        rules["maxParallel"] = {"N": str(group.max_parallel)}
    if group.min_members is not None:
        rules["minMembers"] = {"N": str(group.min_members)}
    if group.mandatory:
        rules["mandatory"] = {"L": [{"S": name} for name in group.mandatory]}
    if group.same_pool:
        rules["samePool"] = {"BOOL": True}
    if group.ends_with:
        rules["endsWith"] = {"S": group.ends_with}
    if group.sites:
        rules["sites"] = {"M": {name: {"S": site} for name, site in group.sites.items()}}
    if group.heartbeat is not None:
        rules["heartbeat"] = {"N": str(group.heartbeat)}
    if stored.rendezvous:
        rules["rendezvous"] = {"S": stored.rendezvous}
    return {
        "name": {"S": group.name},
        "members": {"L": [{"S": name} for name in group.members]},
        **rules,
        "submitter": {"S": stored.submitter},
        "project": {"S": stored.project},
        "digest": {"S": stored.digest},
        "at": {"N": str(stored.at)},
        **({"sweep": {"B": packed(stored.sweep)}} if stored.sweep else {}),
    }


def in_parts_of(item: Mapping[str, Value]) -> InParts:
    """Return a decision in parts."""
    try:
        told = json.loads(zlib.decompress(item["steps"]["B"]))
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if not told:
        raise ValueError("it changes no job")
    return InParts(
        number=_whole(item["number"]),
        kind=PartsKind(_text(item["kind"])),
        steps=tuple((job_of(before), job_of(after)) for before, after in told),
    )


def write_in_parts(decision: InParts) -> Item:
    """Return a decision in parts. The jobs of a group are much alike, so a compressed one takes
    some hundred bytes."""
    told = [[write(job) for job in step] for step in decision.steps]
    packed = zlib.compress(json.dumps(told, separators=(",", ":")).encode())
    return {
        "number": {"N": str(decision.number)},
        "kind": {"S": decision.kind.value},
        "steps": {"B": packed},
    }


def opening_of(item: Mapping[str, Value]) -> Opening:
    return Opening(
        name=_text(item["name"]),
        digest=_text(item["digest"]),
        at=_whole(item["at"]),
        withdrawn="withdrawn" in item,
    )


def history_note_of(item: Mapping[str, Value]) -> tuple[str, Value, Value]:
    """Return the name of an ended job whose records are to be marked, its entry time, and when the
    records may go."""
    return (
        _text(item["jobName"]),
        {"S": _text(item["entryTime"])},
        {"N": str(_whole(item["goesAt"]))},
    )


def restore_of(item: Mapping[str, Value]) -> Restore:
    """Return when the table was copied and restored. Raises one of UNREADABLE, also for moments
    that cannot be (`iso`), or not in this order."""
    copied_at, restored_at = (from_iso(_text(item[name])) for name in ("copiedAt", "restoredAt"))
    if iso(copied_at) > iso(restored_at):
        raise ValueError("the copy is later than its restore")
    return Restore(copied_at=copied_at, restored_at=restored_at)


def write_restore(restore: Restore) -> Item:
    return {
        "copiedAt": {"S": iso(restore.copied_at)},
        "restoredAt": {"S": iso(restore.restored_at)},
    }


def demand_of(item: Mapping[str, Value]) -> Demand:
    """Return what a HELD item keeps."""
    return _demand(item["demand"])


def write_held(demand: Demand, marks: int) -> Item:
    """Return a HELD item: slots kept for an unreadable job, and its part of the ledger's
    `holders`."""
    return {"demand": _value("demand", demand), "holders": {"N": str(marks)}}


def marks_in(item: Mapping[str, Value]) -> int:
    """Return the `holders` of a LEDGER or HELD item."""
    return _whole(item.get("holders", {"N": "0"}))


def free_of(ledger: Mapping[str, Value]) -> Demand | None:
    """Return what is free; None if the pool is not open and admits nothing."""
    return _amounts(ledger, _FREE) if free_attribute("slots") in ledger else None


def foreign_of(ledger: Mapping[str, Value]) -> Demand:
    return _amounts(ledger, _FOREIGN)


def _amounts(ledger: Mapping[str, Value], prefix: str) -> Demand:
    return Demand(
        {
            name.removeprefix(prefix): _whole(value)
            for name, value in ledger.items()
            if name.startswith(prefix)
        }
    )


def used_attribute(resource: str) -> str:
    return f"{_USED}{resource}"


def free_attribute(resource: str) -> str:
    return f"{_FREE}{resource}"


def foreign_attribute(resource: str) -> str:
    return f"{_FOREIGN}{resource}"


def keyed(key: table.Key, item: Mapping[str, Value] | None = None) -> dict[str, Value]:
    """Return an item with its key, or the key alone."""
    return {"pk": {"S": key[0]}, "sk": {"S": key[1]}, **(item or {})}


def write(record: Record) -> Item:
    """Return a record's fields that differ from their defaults, as attributes."""
    return {
        attribute: _value(name, value)
        for name, attribute, default in _ATTRIBUTES[type(record)]
        if (value := getattr(record, name)) != _default(record, name, default)
    }


def _default(record: Record, field: str, default: object) -> object:
    """What a field holds without an attribute: a job's person follows from its submitter."""
    if field == "person" and isinstance(record, Job):
        return BY_DEFAULT.person(record.submitter)
    return default


def read(kind: type[Record], item: Mapping[str, Value]) -> dict[str, Any]:
    """Return the fields of a record; unknown attributes are ignored."""
    readers = _READERS[kind]
    return {
        name: readers[name](value)
        for name, attribute, _ in _ATTRIBUTES[kind]
        if (value := item.get(attribute)) is not None
    }


def _attribute(kind: str, field: str) -> str:
    """Return a field's attribute name in camelCase, DynamoDB's custom, with DESIGN's names
    `jobName` and `jobState`. `kind`: the record's class name."""
    if field in {"name", "state"} and kind == Job.__name__:
        return f"job{field.capitalize()}"
    first, *rest = field.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _value(field: str, value: object) -> Value:
    if field == "entry_time" and isinstance(value, int):
        return {"S": iso(value)}
    match value:
        case bool():
            return {"BOOL": value}
        case int() | float():
            return {"N": repr(value)}
        case StrEnum():
            return {"S": value.value}
        case str():
            return {"S": value}
        case tuple():
            return {"L": [_value(field, each) for each in value]}
        case Demand():
            return {"M": {name: {"N": str(amount)} for name, amount in value.items()}}
        case Attempt() | StopOrder() | Beneficiary() | Claim() | MissingRight():
            return {"M": write(value)}
    raise TypeError(f"{field}: {type(value).__name__} has no form in the table")


def _text(value: Value) -> str:
    return str(value["S"])


def _whole(value: Value) -> int:
    return int(value["N"])


def _flag(value: Value) -> bool:
    return bool(value["BOOL"])


def _texts(value: Value) -> tuple[str, ...]:
    return tuple(_text(each) for each in value["L"])


def _demand(value: Value) -> Demand:
    return Demand({name: _whole(amount) for name, amount in value["M"].items()})


def _parts(value: Value) -> tuple[tuple[str, Demand], ...]:
    pairs = (each["L"] for each in value["L"])
    return tuple((_text(pool), _demand(demand)) for pool, demand in pairs)


def _part_uses(value: Value) -> tuple[PartUse, ...]:
    parts = (each["L"] for each in value["L"])
    return tuple(PartUse(_text(pool), _text(kind), _whole(slots)) for pool, kind, slots in parts)


def _metrics(value: Value) -> tuple[tuple[str, float], ...]:
    pairs = (each["L"] for each in value["L"])
    return tuple((_text(name), float(number["N"])) for name, number in pairs)


def _capacity(value: Value) -> Demand:
    """Read a capacity. Raises ValueError if nobody could have configured the capacity: a mistake by
    hand must not open a pool to more jobs than there are instances."""
    capacity = _demand(value)
    if not may_have(capacity):
        raise ValueError(f"no pool may have {dict(capacity)}")
    return capacity


Reader = Callable[[Value], Any]

_READERS: Mapping[type[Record], Mapping[str, Reader]] = {
    Job: {
        "name": _text,
        "state": lambda value: JobState(_text(value)),
        "priority": _whole,
        "entry_time": lambda value: from_iso(_text(value)),
        "demand": _demand,
        "pools": _texts,
        "parts": _parts,
        "requires": _demand,
        "preemptible": _flag,
        "min_runtime": _whole,
        "retries": _whole,
        "project": _text,
        "group": _text,
        "after": _texts,
        "after_any": _texts,
        "depends_on": _texts,
        "followed": _flag,
        "workload": lambda value: Workload(_text(value)),
        "priority_class": _text,
        "ran_before_class": _whole,
        "admitted_class": _text,
        "auto": _flag,
        "checkpoints": _flag,
        "submitter": _text,
        "person": _text,
        "role": _text,
        "attempts": _whole,
        "evictions": _whole,
        "schedule_attempts": _whole,
        "faults": _whole,
        "refused_in": _texts,
        "denied_in": _texts,
        "releases": lambda value: tuple(_whole(each) for each in value["L"]),
        "ran": _whole,
        "reports": _flag,
        "attempt": lambda value: attempt_of(value["M"]),
        "claim": lambda value: Claim(**read(Claim, value["M"])),
        "not_before": _whole,
        "changed_at": _whole,
        "line_by_user": _flag,
        "cause": _text,
        "message": _text,
        "digest": _text,
        "metrics": _metrics,
        "version": _whole,
    },
    Attempt: {
        "number": _whole,
        "training_job": _text,
        "token": _text,
        "pool": _text,
        "instance_type": _text,
        "admitted_at": _whole,
        "waiting_since": _whole,
        "instance_types": _texts,
        "created": _flag,
        "probes": _flag,
        "pending_since": _whole,
        "running_since": _whole,
        "checkpoint_at": _whole,
        "saved_step": _whole,
        "save_took": _whole,
        "reported": _flag,
        "silent_since": _whole,
        "heartbeat_missed": _flag,
        "stalled_at": _whole,
        "step": _whole,
        "steps": _whole,
        "warning": _text,
        "stop": lambda value: StopOrder(**read(StopOrder, value["M"])),
        "ended_at": _whole,
        "outcome": lambda value: AttemptOutcome(_text(value)),
        "message": _text,
        "artifact": _text,
        "checkpoints": _text,
    },
    StopOrder: {
        "cause": lambda value: StopCause(_text(value)),
        "by": _text,
        "at": _whole,
        "sent": _flag,
        "grace_until": _whole,
        "beneficiary": lambda value: beneficiary_of(value["M"]),
    },
    Beneficiary: {"project": _text, "submitter": _text, "workload": _text},
    AttemptUse: {
        "job": _text,
        "number": _whole,
        "project": _text,
        "submitter": _text,
        "workload": _text,
        "pool": _text,
        "instance_type": _text,
        "slots": _whole,
        "admitted_at": _whole,
        "waiting_since": _whole,
        "running_since": _whole,
        "ended_at": _whole,
        "lost_since": _whole,
        "beneficiary": lambda value: beneficiary_of(value["M"]),
        "evicted_for": _text,
        "outcome": _text,
        "parts": _part_uses,
    },
    DaySum: {
        "day": _text,
        "through": _text,
        "attempts": _whole,
        "unreadable": _whole,
        "begins": _text,
        "parts": _texts,
        "whole": _flag,
        "readable": _flag,
    },
    Claim: {
        "pool": _text,
        "amount": _demand,
        "since": _whole,
        "priority_class": _text,
        "moved": _flag,
    },
    Pool: {
        "name": _text,
        "instance_type": _text,
        "capacity": _capacity,
        "contents": _texts,
        "properties": _demand,
        "reserve_after": _whole,
        "min_runtime": _whole,
        "max_min_runtime": _whole,
        "pending_timeout": _whole,
        "consolidate": _flag,
        "count_foreign": _flag,
        "open": _flag,
        "suspend_grace": _whole,
        "time_slice": _whole,
        "checkpoints": lambda value: CheckpointRule(_text(value)),
        "stall_after": _whole,
        "on_stall": lambda value: OnStall(_text(value)),
        "stall_unreported": _flag,
        "read_reports": _flag,
        "state": lambda value: PoolState(_text(value)),
    },
    PoolHealth: {
        "errors": _whole,
        "not_before": _whole,
        "learned": _whole,
        "learned_until": _whole,
        "message": _text,
        "missing_rights": lambda value: tuple(
            MissingRight(**read(MissingRight, each["M"])) for each in value["L"]
        ),
    },
    MissingRight: {
        "role": _text,
        "action": _text,
        "since": _whole,
        "refusals": _whole,
        "not_before": _whole,
        "message": _text,
    },
    Yielded: {
        "user": _text,
        "workload": lambda value: Workload(_text(value)),
        "priority": _whole,
        "at": _whole,
        "project": _text,
    },
    Sighting: {
        "training_job": _text,
        "ours": _flag,
        "instance_type": _text,
        "instances": _whole,
        "first_seen": _whole,
        "stopped": _flag,
    },
}


_ATTRIBUTES: Mapping[type[Record], Sequence[tuple[str, str, object]]] = {
    kind: [
        (
            field.name,
            _attribute(kind.__name__, field.name),
            field.default if field.default_factory is MISSING else field.default_factory(),
        )
        for field in fields(kind)
    ]
    for kind in get_args(Record)
}
"""Each field of each record: its name, its attribute's, and its default, MISSING if it has none.
Made once: every load and every commit asks."""
