"""Records of the model as attributes of an item. A field's declaration alone says how it is stored.

An item leaves out fields that have their default, and reading restores the default: a new field in
a release needs no migration. A field of a type that `_FORMS` does not know fails at import.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, asdict, dataclass, fields
from enum import StrEnum
from typing import Any, NamedTuple, get_args

from slotq_core.gpu_amounts import Gpus, gpus_number, read_gpus
from slotq_core.model.attempts import (
    Attempt,
    AttemptOutcome,
    Beneficiary,
    GpuBound,
    StopCause,
    StopOrder,
)
from slotq_core.model.capacity.plans import PlanFacts, PlanStatus, PlanWindow
from slotq_core.model.capacity.reservations import Reservation
from slotq_core.model.capacity.work import WorkKind
from slotq_core.model.demand import Demand
from slotq_core.model.groups import Group, StoredGroup, Sweep
from slotq_core.model.jobs import SEMI, Claim, Job, JobState, Preemptible, Workload
from slotq_core.model.nodes import Node, NodeState
from slotq_core.model.notices import CallbackKind, WhenAbandoned
from slotq_core.model.pools import (
    CapacityKind,
    CheckpointRule,
    FailedNodes,
    MissingRight,
    NodeRules,
    OnStall,
    Pool,
    PoolHealth,
    PoolState,
    WarmSlot,
)
from slotq_core.model.users import Yielded
from slotq_core.ports.callbacks import KeptCallback
from slotq_core.ports.training import Sighting
from slotq_core.ports.usage import DaySum
from slotq_core.privacy.identity import BY_DEFAULT
from slotq_core.timestamps import from_iso, iso
from slotq_core.usage.attempt_use import AttemptUse, PartUse
from slotq_core.wire.pool_definition import may_have


def packed_sweep(sweep: Sweep) -> bytes:
    return zlib.compress(json.dumps(asdict(sweep)).encode())


def unpacked_sweep(content: bytes) -> Sweep:
    """Return the sweep. Raises ValueError or TypeError if `packed_sweep` did not make the bytes."""
    try:
        stored = json.loads(zlib.decompress(content))
    except zlib.error as error:
        raise ValueError("not a compressed sweep") from error
    return Sweep(**{**stored, "parameters": tuple(stored["parameters"])})


Value = Mapping[str, Any]
"""One attribute in DynamoDB's own form, for example `{"S": "text"}`."""
Item = dict[str, Value]
Record = (
    Job
    | Attempt
    | StopOrder
    | Beneficiary
    | Claim
    | Pool
    | NodeRules
    | Node
    | WarmSlot
    | PoolHealth
    | MissingRight
    | FailedNodes
    | PlanFacts
    | PlanWindow
    | Reservation
    | Sighting
    | AttemptUse
    | DaySum
    | Yielded
    | Group
    | StoredGroup
    | KeptCallback
)
_RECORDS: tuple[type[Record], ...] = get_args(Record)
_ENUMS = (
    JobState,
    Workload,
    AttemptOutcome,
    GpuBound,
    StopCause,
    CheckpointRule,
    OnStall,
    PoolState,
    NodeState,
    CapacityKind,
    WorkKind,
    PlanStatus,
    CallbackKind,
    WhenAbandoned,
)


def write(record: Record) -> Item:
    """Return a record's fields that differ from their defaults, as attributes."""
    return {
        column.attribute: column.write(value)
        for column in _COLUMNS[type(record)]
        if (value := getattr(record, column.name)) != _default(record, column)
    }


def read(kind: type[Record], item: Mapping[str, Value]) -> dict[str, Any]:
    """Return the fields of a record; unknown attributes are ignored."""
    return {
        column.name: column.read(value)
        for column in _COLUMNS[kind]
        if (value := item.get(column.attribute)) is not None
    }


def text(value: Value) -> str:
    return str(value["S"])


def whole(value: Value) -> int:
    return int(value["N"])


def demand(value: Value) -> Demand:
    return Demand({name: whole(amount) for name, amount in value["M"].items()})


def _preemptible(value: Value) -> Preemptible:
    if value.get("S") == SEMI:
        return SEMI
    return bool(value["BOOL"])


def write_demand(amounts: Demand) -> Value:
    return {"M": {name: {"N": str(amount)} for name, amount in amounts.items()}}


def _write_text(value: str) -> Value:
    return {"S": value}


def _write_whole(value: int) -> Value:
    return {"N": repr(value)}


def _write_gpus(amount: Gpus) -> Value:
    return {"N": str(gpus_number(amount))}


def _capacity(value: Value) -> Demand:
    """Read a capacity. Raises ValueError for one that no configuration can contain: a manual
    mistake must not open a pool to more jobs than there are instances."""
    capacity = demand(value)
    if not may_have(capacity):
        raise ValueError(f"no pool may have {dict(capacity)}")
    return capacity


class _Form(NamedTuple):
    """How values of one type are stored."""

    read: Callable[[Value], Any]
    write: Callable[[Any], Value]


_TEXT = _Form(text, _write_text)
_WHOLE = _Form(whole, _write_whole)
_DEMAND = _Form(demand, write_demand)
_NUMBER = _Form(lambda value: float(value["N"]), lambda value: {"N": repr(value)})


def _of_enum(kind: type[StrEnum]) -> _Form:
    return _Form(lambda value: kind(text(value)), lambda value: {"S": value.value})


def _of_record(kind: type[Record]) -> _Form:
    return _Form(lambda value: kind(**read(kind, value["M"])), lambda value: {"M": write(value)})


def _many(form: _Form) -> _Form:
    return _Form(
        lambda value: tuple(map(form.read, value["L"])),
        lambda values: {"L": [*map(form.write, values)]},
    )


def _row(kind: Callable[[Any], Any], *forms: _Form) -> _Form:
    """A tuple of parts of different types."""
    return _Form(
        lambda value: kind(form.read(part) for form, part in zip(forms, value["L"], strict=True)),
        lambda parts: {"L": [form.write(part) for form, part in zip(forms, parts, strict=True)]},
    )


def _by_name(form: _Form) -> _Form:
    return _Form(
        lambda value: {name: form.read(member) for name, member in value["M"].items()},
        lambda values: {"M": {name: form.write(member) for name, member in values.items()}},
    )


_FORMS: Mapping[str, _Form] = {
    "str": _TEXT,
    "int": _WHOLE,
    "Moment": _WHOLE,
    "Duration": _WHOLE,
    "Gpus": _Form(lambda value: read_gpus(value["N"]), _write_gpus),
    "Preemptible": _Form(
        _preemptible, lambda value: {"S": value} if value == SEMI else {"BOOL": value}
    ),
    "bool": _Form(lambda value: bool(value["BOOL"]), lambda value: {"BOOL": value}),
    "Demand": _DEMAND,
    "Properties": _DEMAND,
    "tuple[str, ...]": _many(_TEXT),
    "tuple[int, ...]": _many(_WHOLE),
    "tuple[Moment, ...]": _many(_WHOLE),
    "tuple[tuple[str, Demand], ...]": _many(_row(tuple, _TEXT, _DEMAND)),
    "tuple[tuple[str, float], ...]": _many(_row(tuple, _TEXT, _NUMBER)),
    "tuple[PartUse, ...]": _many(_row(PartUse._make, _TEXT, _TEXT, _WHOLE)),
    "tuple[MissingRight, ...]": _many(_of_record(MissingRight)),
    "tuple[FailedNodes, ...]": _many(_of_record(FailedNodes)),
    "tuple[PlanWindow, ...]": _many(_of_record(PlanWindow)),
    "tuple[Reservation, ...]": _many(_of_record(Reservation)),
    "Mapping[str, str]": _by_name(_TEXT),
    "Sweep": _Form(
        lambda value: unpacked_sweep(value["B"]), lambda value: {"B": packed_sweep(value)}
    ),
    **{kind.__name__: _of_enum(kind) for kind in _ENUMS},
    **{kind.__name__: _of_record(kind) for kind in _RECORDS},
}
"""How a field is stored, by the type that its declaration names, without `| None`."""

_OTHERWISE: Mapping[tuple[type[Record], str], _Form] = {
    (Job, "entry_time"): _Form(
        lambda value: from_iso(text(value)), lambda value: {"S": iso(value)}
    ),
    (Pool, "capacity"): _Form(_capacity, write_demand),
}
"""The fields that are not stored as others of their type: sort keys have the entry time's text."""

_ELSEWHERE: frozenset[tuple[type[Record], str]] = frozenset(
    {
        (Pool, "foreign"),  # The ledger has it.
        (Pool, "schedule"),  # Follows from the moment and the windows.
        (Pool, "health"),  # Has an item of its own.
        (Group, "ended"),  # The members say so.
        (StoredGroup, "group"),  # The other attributes of its item.
    }
)
"""The fields that their record's item does not hold."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Column:
    """A field of a record, and its attribute."""

    name: str
    attribute: str
    default: object
    """MISSING if the field has none."""
    read: Callable[[Value], Any]
    write: Callable[[Any], Value]


def _column(kind: type[Record], field: Field[Any]) -> _Column:
    form = _OTHERWISE.get((kind, field.name))
    form = form or _FORMS[str(field.type).removesuffix(" | None")]
    return _Column(
        name=field.name,
        attribute=_attribute(kind, field.name),
        default=field.default if field.default_factory is MISSING else field.default_factory(),
        read=form.read,
        write=form.write,
    )


def _attribute(kind: type[Record], field: str) -> str:
    """Return a field's attribute name in camelCase, DynamoDB's custom. A job's name and state are
    `jobName` and `jobState`."""
    if kind is Job and field in {"name", "state"}:
        return f"job{field.capitalize()}"
    first, *rest = field.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _default(record: Record, column: _Column) -> object:
    """What a field holds without an attribute: a job's person follows from its submitter."""
    if column.name == "person" and isinstance(record, Job):
        return BY_DEFAULT.person(record.submitter)
    return column.default


_COLUMNS: Mapping[type[Record], Sequence[_Column]] = {
    kind: [_column(kind, field) for field in fields(kind) if (kind, field.name) not in _ELSEWHERE]
    for kind in _RECORDS
}
"""Made once: every load and every commit asks."""
