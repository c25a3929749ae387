"""The scenario file: a world, what is submitted to it and what is expected of it (DESIGN 6.2).

The file counts in seconds; everything behind it in milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from slotq_core import model
from slotq_core.errors import SlotQError
from slotq_core.names import TRAINING_JOB_NAME

INSTANCE_TYPE = "ml.m5.large"
"""Scenarios tell pools apart by name alone: all are of one type."""


class ScenarioError(SlotQError):
    """The file is no scenario; the message names the file, the line, the key and what is wrong."""


def _milliseconds(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("a number of seconds is needed")
    return round(value * 1000)


Seconds = Annotated[int, BeforeValidator(_milliseconds)]
"""Seconds in the file, whole milliseconds here."""
Duration = Annotated[Seconds, Field(ge=0)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PoolSpec(_Part):
    name: str = Field(min_length=1, max_length=40)
    capacity: int = Field(ge=1)
    stop_seconds: Duration = 0
    reserve_after: Duration | None = None
    min_runtime: Duration = 0
    max_min_runtime: Duration = 0

    def pool(self) -> model.Pool:
        return model.Pool(
            name=self.name,
            instance_type=INSTANCE_TYPE,
            capacity=model.Demand(slots=self.capacity),
            reserve_after=self.reserve_after,
            min_runtime=self.min_runtime,
            max_min_runtime=self.max_min_runtime,
        )


class JobSpec(_Part):
    name: str
    priority: int = Field(default=0, ge=-1_000_000, le=1_000_000)
    slots: int = Field(default=1, ge=1)
    demand: dict[str, int] | None = None
    pools: tuple[str, ...] = ()
    runtime: Duration | None = None
    """Work. None: it runs for ever."""
    checkpoint: bool = True
    preemptible: bool = True
    min_runtime: Duration = 0
    user: str = ""
    submit_at: Seconds | None = None
    cancel_at: Seconds | None = None
    running_since: Seconds | None = None
    entry_at: Seconds | None = None
    pool: str | None = None

    @model_validator(mode="after")
    def _submitted_or_running(self) -> Self:
        if not TRAINING_JOB_NAME.fullmatch(self.name):
            raise ValueError(f"'{self.name}' is no name that SageMaker takes")
        if self.demand is not None and set(self.demand) != {"slots"}:
            raise ValueError("demand takes {slots: n}")
        if (self.submit_at is None) == (self.running_since is None):
            raise ValueError("a job needs either submit_at or running_since")
        if self.running_since is not None and (self.pool is None or self.running_since > 0):
            raise ValueError("running_since needs a pool, and is at most 0")
        if self.running_since is None and (self.pool is not None or self.entry_at is not None):
            raise ValueError("pool and entry_at belong to running_since")
        if self.pool and self.pools and self.pool not in self.pools:
            raise ValueError(f"it runs in pool '{self.pool}', which is not among its pools")
        return self

    @property
    def needed(self) -> int:
        return self.demand["slots"] if self.demand else self.slots

    def submission(self, pools: tuple[str, ...]) -> model.Submission:
        return model.Submission(
            name=self.name,
            instance_type="",
            slots=self.needed,
            pools=self.pools or pools,
            priority=self.priority,
            preemptible=self.preemptible,
            min_runtime=self.min_runtime,
        )


class Expectation(_Part):
    at: Seconds | Literal["end"]
    states: dict[str, str] = {}
    started: dict[str, list[Seconds]] = {}
    evictions: dict[str, int] = {}


class Scenario(_Part):
    pools: tuple[PoolSpec, ...] = Field(min_length=1)
    jobs: tuple[JobSpec, ...] = ()
    until: Duration | None = None
    expect: tuple[Expectation, ...] = ()

    @model_validator(mode="after")
    def _names_agree(self) -> Self:
        pools, jobs = [p.name for p in self.pools], [j.name for j in self.jobs]
        for what, all_names in (("pool", pools), ("job", jobs)):
            for name in all_names:
                if all_names.count(name) > 1:
                    raise ValueError(f"two {what}s are named '{name}'")
        for job in self.jobs:
            for name in (*job.pools, *([job.pool] if job.pool else [])):
                if name not in pools:
                    raise ValueError(
                        f"job '{job.name}' names the pool '{name}'; there is no such pool"
                    )
        for expectation in self.expect:
            for name in {**expectation.states, **expectation.started, **expectation.evictions}:
                if name not in jobs:
                    raise ValueError(f"expect names the job '{name}'; there is no such job")
        return self

    @property
    def pool_names(self) -> tuple[str, ...]:
        return tuple(pool.name for pool in self.pools)


def load(path: Path) -> Scenario:
    """Read a scenario file. Raises ScenarioError."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ScenarioError(f"{path}: {error.strerror or error}") from None
    try:
        return Scenario.model_validate(yaml.safe_load(text))
    except yaml.YAMLError as error:
        raise ScenarioError(f"{path}: not YAML: {error}") from None
    except ValidationError as error:
        raise ScenarioError("\n".join(_faults(path, text, error))) from None


def _faults(path: Path, text: str, error: ValidationError) -> Iterator[str]:
    for fault in error.errors():
        where = ".".join(str(part) for part in fault["loc"])
        message = fault["msg"].removeprefix("Value error, ")
        if fault["type"] == "extra_forbidden":
            message = "this key is not known (or not supported by this version)"
        line = _line_of(text, fault["loc"])
        yield f"{path}{f':{line}' if line else ''}: {where + ': ' if where else ''}{message}"


def _line_of(text: str, loc: tuple[Any, ...]) -> int | None:
    """The line of the innermost part of the path that the file has."""
    node: yaml.Node | None = yaml.compose(text, Loader=yaml.SafeLoader)
    line = None
    for part in loc:
        if isinstance(node, yaml.MappingNode):
            found = [(k, v) for k, v in node.value if k.value == part]
            if not found:
                break
            line, node = found[0][0].start_mark.line + 1, found[0][1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int):
            node = node.value[part]
            line = node.start_mark.line + 1
    return line
