"""What is submitted: a CreateTrainingJob request as plain JSON, with the settings as tags."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypedDict, Unpack

from slotq.configuration.bounds import priority_in, whole
from slotq.configuration.keywords import takes
from slotq.errors import InvalidRequest
from slotq_core import names
from slotq_core.model.groups import end_of
from slotq_core.wire import traits
from slotq_core.wire.pool_definition import (
    MOST_OF_A_RESOURCE,
    property_rule,
    property_value,
)
from slotq_core.wire.setting_tags import MOST, TAGS, written

if TYPE_CHECKING:
    from slotq.transport.connection import Connection
    from slotq_core.wire.views.jobs import JobView


class Named(Protocol):
    """A job or a group, as the client returns them."""

    @property
    def name(self) -> str: ...


Awaited = str | Named
"""A dependency: a job or a group, or its name (`group:NAME` for a group if a job has the same
name)."""


class JobSettings(TypedDict, total=False):
    """The queue's settings of a job. None: left to the queue."""

    priority: Annotated[
        int | str | None, "high first, or a class; default from the config, else the queue's"
    ]
    project: Annotated[
        str | None, "the project; default from the config, else the caller's own default"
    ]
    pools: Annotated[str | Iterable[str] | None, "in order of preference"]
    demand: Annotated[
        Mapping[str, int | bool | str] | None,
        "what a job needs besides slots, by name: resources and properties of a pool",
    ]
    preemptible: Annotated[
        bool | str | None,
        "whether the job may be evicted; `semi`: not while it is within its project's quota",
    ]
    min_runtime: Annotated[int | None, "seconds after a start in which the job is not evicted"]
    runtime_estimate: Annotated[
        int | None, "seconds that it will probably run in all, for forecasts alone"
    ]
    retries: Annotated[int | None, "how often a failed job is run again"]
    workload: Annotated[str | None, "the class: training, interactive or inference"]
    gpus: Annotated[
        float | str | None,
        "GPUs of one node, in pools that keep nodes: 2, or 0.25 for a part of one GPU",
    ]
    literal_paths: Annotated[bool | None, "whether the job has /opt/ml itself on its node"]
    after: Annotated[
        str | Iterable[str] | None,
        "jobs and groups that must complete before this one waits for slots",
    ]
    after_any: Annotated[
        str | Iterable[str] | None, "jobs and groups that must end first, in whatever way"
    ]


@takes(JobSettings)
def settings_tags(**settings: Unpack[JobSettings]) -> dict[str, str]:
    """The tags that carry these settings.

    Raises InvalidRequest with the name of the setting if a number is out of range, if the class
    does not exist, or if a list of jobs is too long.
    """
    own = {name: value for name in TAGS if (value := settings.get(name)) is not None}
    for name in (key for key in own if key in MOST):
        whole(name, own[name], 0, MOST[name])
    if (priority := settings.get("priority")) is not None:
        priority_in("priority", priority)
    pools = settings.get("pools")
    demand = {
        name: _wanted(name, amount) for name, amount in (settings.get("demand") or {}).items()
    }
    if pools is not None and not isinstance(pools, str):
        pools = ",".join(pools)
    values = {
        "priority": priority,
        names.PROJECT_TAG: settings.get("project"),
        names.POOLS_TAG: pools,
        names.DEMAND_TAG: ",".join(f"{name}={n}" for name, n in demand.items()) or None,
        **{TAGS[name]: written(name, value) for name, value in own.items()},
    }
    return {
        **{key: str(value) for key, value in values.items() if value is not None},
        **_jobs_tags("after", names.AFTER_TAG, settings.get("after")),
        **_jobs_tags("after_any", names.AFTER_ANY_TAG, settings.get("after_any")),
    }


def _wanted(name: str, value: object) -> str:
    """An amount, text or boolean of a demand, as the tag has it."""
    read = property_value(name, value)
    if read is None and isinstance(value, int):
        whole(f"demand.{name}", value, 1, MOST_OF_A_RESOURCE)
    if read is None:
        raise InvalidRequest(
            f"demand.{name} must be {property_rule(name, value)}, not {value!r:.60}",
            field=f"demand.{name}",
        )
    return traits.written(read)


def _jobs_tags(setting: str, key: str, jobs: str | Iterable[str] | None) -> dict[str, str]:
    """The tags that hold this list of jobs, as many in each as fit."""
    job_names = jobs.split(",") if isinstance(jobs, str) else jobs or ()
    values = names.packed(job.strip() for job in job_names)
    keys = names.numbered_tags(key)
    if len(values) > len(keys):
        raise InvalidRequest(f"{setting} names too many jobs for {len(keys)} tags", field=setting)
    return dict(zip(keys, values, strict=False))


@dataclass(frozen=True, kw_only=True, slots=True)
class _Scope:
    """Dependencies of the submissions of one client in a block."""

    client: object
    after: tuple[str, ...]
    after_any: tuple[str, ...]


_scopes: ContextVar[tuple[_Scope, ...]] = ContextVar("slotq_after", default=())


@contextmanager
def dependencies(
    client: object, after: Iterable[Awaited], after_any: str | Iterable[Awaited]
) -> Iterator[None]:
    """Add these dependencies to every submission of this client in the block, in addition to its
    own."""
    scope = _Scope(client=client, after=_names(after), after_any=_names(after_any))
    token = _scopes.set((*_scopes.get(), scope))
    try:
        yield
    finally:
        _scopes.reset(token)


def with_dependencies(request: Mapping[str, Any], client: object) -> Mapping[str, Any]:
    """The request with the dependencies that `dependencies` adds for this client."""
    scopes = [scope for scope in _scopes.get() if scope.client is client]
    for setting, key in (("after", names.AFTER_TAG), ("after_any", names.AFTER_ANY_TAG)):
        if more := [name for scope in scopes for name in getattr(scope, setting)]:
            there = (tag for tag in request.get("Tags") or () if _setting(tag) == key)
            own = [name for tag in there for name in str(tag["Value"]).split(",")]
            tags = _jobs_tags(setting, key, [*own, *more])
            request = with_tags(request, tags, override=True)
    return request


def _names(awaited: str | Iterable[Awaited]) -> tuple[str, ...]:
    """The names of these jobs and groups, in the tags' form. A text may hold several names, comma
    separated."""
    items = [awaited] if isinstance(awaited, str) else awaited
    texts = (item if isinstance(item, str) else _name(item) for item in items)
    return tuple(name.strip() for text in texts for name in text.split(","))


def _name(awaited: Named) -> str:
    from slotq_core.wire.groups.views import GroupView

    return end_of(awaited.name) if isinstance(awaited, GroupView) else awaited.name


class Collector(Protocol):
    """Takes the submissions of a block, to send them together."""

    def collect(self, request: Mapping[str, Any]) -> JobView: ...


_collectors: ContextVar[tuple[tuple[object, Collector], ...]] = ContextVar(
    "slotq_batch", default=()
)


@contextmanager
def collected_by(collector: Collector, client: Connection) -> Iterator[None]:
    """Let the collector take every submission of this client, and of its copies with other
    settings, in the block."""
    token = _collectors.set(((client.transport, collector), *_collectors.get()))
    try:
        yield
    finally:
        _collectors.reset(token)


def collector_of(client: Connection) -> Collector | None:
    """What takes the client's submissions now, if anything does."""
    found = (each for transport, each in _collectors.get() if transport is client.transport)
    return next(found, None)


def with_tags(
    request: Mapping[str, Any], tags: Mapping[str, str], *, override: bool = False
) -> dict[str, Any]:
    """The request with these tags added. A tag of the same setting that the request already has
    stays, unless `override`. Tags that together hold one list count as one. A value that is not a
    list stays, and the queue refuses the request."""
    own = request.get("Tags") or []
    if not isinstance(own, list | tuple):
        return dict(request)
    own = list(own)
    if override:
        overridden = {names.setting_of(key) for key in tags}
        own = [tag for tag in own if _setting(tag) not in overridden]
    there = {_setting(tag) for tag in own}
    added = [
        {"Key": key, "Value": value}
        for key, value in tags.items()
        if names.setting_of(key) not in there
    ]
    return {**request, "Tags": own + added} if own or added else dict(request)


def jsonable(value: Any, path: str = "") -> Any:
    """The value in JSON form: keys with the value None dropped, datetimes as ISO 8601 in UTC.

    Raises InvalidRequest with the path of a value that JSON cannot hold.
    """
    if isinstance(value, Mapping):
        return {
            str(key): jsonable(item, f"{path}.{key}" if path else str(key))
            for key, item in value.items()
            if item is not None
        }
    if isinstance(value, list | tuple):
        return [jsonable(item, f"{path}.{n}") for n, item in enumerate(value)]
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.astimezone()).astimezone(UTC).isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if value is None or isinstance(value, str | int) or _finite(value):
        return value
    raise InvalidRequest(
        f"{path}: a training request cannot carry {_shown(value)}; give a plain value "
        "(a pipeline variable has none yet)",
        field=path,
    )


def _finite(value: object) -> bool:
    return isinstance(value, float) and math.isfinite(value)


def _shown(value: object) -> str:
    return repr(value) if isinstance(value, float) else f"a {type(value).__name__}"


def _setting(tag: Any) -> Any:
    key = tag.get("Key") if isinstance(tag, Mapping) else None
    return names.setting_of(key) if isinstance(key, str) else None
