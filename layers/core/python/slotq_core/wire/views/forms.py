"""Fields of the model as JSON and back, by the type that their declaration names.

Moments are ISO 8601 in UTC, durations seconds. A view shows a field by having one of its name. What
a view has under another name or in another form, and records within records, are arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, NamedTuple, TypeVar

from slotq_core.gpu_amounts import gpus_number, read_gpus
from slotq_core.model.attempts import AttemptOutcome, GpuBound, StopCause
from slotq_core.model.capacity.work import WorkKind
from slotq_core.model.demand import Demand
from slotq_core.model.jobs import JobState, Workload
from slotq_core.model.pools import CapacityKind, CheckpointRule, OnStall, PoolState
from slotq_core.timestamps import from_iso, iso, milliseconds, seconds
from slotq_core.wire import traits
from slotq_core.wire.base import BaseModel

V = TypeVar("V", bound=BaseModel)
R = TypeVar("R")


class _Form(NamedTuple):
    """How values of one type are said in JSON, and read from it."""

    say: Callable[[Any], Any]
    read: Callable[[Any], Any]


_ENUMS = (
    JobState,
    Workload,
    AttemptOutcome,
    GpuBound,
    StopCause,
    CheckpointRule,
    OnStall,
    PoolState,
    CapacityKind,
    WorkKind,
)

_AS_IT_IS = _Form(lambda value: value, lambda value: value)

_FORMS: Mapping[str, _Form] = {
    "str": _AS_IT_IS,
    "int": _AS_IT_IS,
    "bool": _AS_IT_IS,
    "Preemptible": _AS_IT_IS,
    "Moment": _Form(iso, from_iso),
    "Duration": _Form(seconds, milliseconds),
    "Gpus": _Form(gpus_number, read_gpus),
    "Demand": _Form(lambda demand: dict(demand.items()), Demand),
    "Properties": _Form(traits.decoded, lambda values: Demand(traits.encoded(values))),
    "tuple[str, ...]": _Form(list, tuple),
    "tuple[int, ...]": _Form(list, tuple),
    "tuple[Moment, ...]": _Form(
        lambda moments: [*map(iso, moments)], lambda texts: tuple(map(from_iso, texts))
    ),
    "tuple[tuple[str, Demand], ...]": _Form(
        lambda pairs: {name: dict(amounts.items()) for name, amounts in pairs},
        lambda said: tuple((name, Demand(amounts)) for name, amounts in said.items()),
    ),
    "tuple[tuple[str, float], ...]": _Form(dict, lambda said: tuple(said.items())),
    "Mapping[str, str]": _Form(dict, dict),
    "Mapping[str, JobState]": _Form(
        lambda states: {name: state.value for name, state in states.items()},
        lambda said: {name: JobState(state) for name, state in said.items()},
    ),
    **{kind.__name__: _Form(lambda value: value.value, kind) for kind in _ENUMS},
}


_shared: dict[tuple[type[Any], type[BaseModel]], Mapping[str, str]] = {}


def _types(kind: type[Any], view: type[BaseModel]) -> Mapping[str, str]:
    """The declared type, without `| None`, of each field that a record and a view both have."""
    if (kind, view) not in _shared:
        declared = {field.name: str(field.type).removesuffix(" | None") for field in fields(kind)}
        _shared[kind, view] = {
            name: declared[name] for name in view.model_fields if name in declared
        }
    return _shared[kind, view]


def view_of(record: Any, view: type[V], **others: Any) -> V:
    """The view of a record. `others`: the fields that do not follow from the record's own. Raises
    KeyError if another field's type has no form."""
    shared = {
        name: None if (value := getattr(record, name)) is None else _FORMS[kind].say(value)
        for name, kind in _types(type(record), view).items()
        if name not in others
    }
    return view(**shared, **others)


def record_of(view: BaseModel, kind: type[R], **others: Any) -> R:
    """The record that a view shows. `others`: the fields that do not follow from the view's own.
    Raises KeyError if another field's type has no form."""
    shared = {
        name: None if (value := getattr(view, name)) is None else _FORMS[declared].read(value)
        for name, declared in _types(kind, type(view)).items()
        if name not in others
    }
    return kind(**shared, **others)
