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
NonNegative = Annotated[int, Field(ge=0)]


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


Quota = NonNegative | dict[str, NonNegative]
"""Slots over all pools together, or by pool."""


def _amounts(quota: int | dict[str, int]) -> model.Amounts:
    if isinstance(quota, int):
        return {model.EVERYWHERE: model.Demand(slots=quota)}
    return {pool: model.Demand(slots=slots) for pool, slots in quota.items()}


class DepartmentSpec(_Part):
    name: str = Field(min_length=1)
    quota: Quota | None = None
    weight: NonNegative | None = None
    limit: Quota | None = None
    priority: int = 0
    over_quota: bool = True
    fairness: model.Fairness = model.Fairness.PROTECT_QUOTA

    def department(self) -> model.Department:
        return model.Department(
            name=self.name,
            quota=None if self.quota is None else _amounts(self.quota),
            weight=self.weight,
            limit={} if self.limit is None else _amounts(self.limit),
            priority=self.priority,
            over_quota=self.over_quota,
            fairness=self.fairness,
        )


class ProjectSpec(_Part):
    name: str = Field(min_length=1)
    department: str = ""
    quota: Quota = 0
    weight: NonNegative | None = None
    limit: Quota | None = None
    priority: int = 0
    over_quota: bool = True
    min_runtime: Duration = 0

    def project(self) -> model.Project:
        return model.Project(
            name=self.name,
            department=self.department,
            quota=_amounts(self.quota),
            weight=self.weight,
            limit={} if self.limit is None else _amounts(self.limit),
            priority=self.priority,
            over_quota=self.over_quota,
            min_runtime=self.min_runtime,
        )


DEFAULT_PROJECT = "default"
"""Where projects exist, a job that names none is of this one: quota 0, weight 0."""


class ClassSpec(_Part):
    name: str = Field(min_length=1)
    value: int = Field(ge=-1_000_000, le=1_000_000)
    demote_to: str = ""
    demote_after: Duration = 0

    def priority_class(self) -> model.PriorityClass:
        return model.PriorityClass(**self.model_dump())


class SchedulerSpec(_Part):
    """Nothing in it: no settings."""

    max_jobs: Annotated[int, Field(ge=1)] | None = None
    max_schedule_count: int = Field(default=10, ge=1)
    min_schedule_interval: Annotated[Seconds, Field(gt=0)] = 10_000
    max_schedule_interval: Annotated[Seconds, Field(gt=0)] = 600_000

    @model_validator(mode="after")
    def _intervals_agree(self) -> Self:
        if self.max_schedule_interval < self.min_schedule_interval:
            raise ValueError("max_schedule_interval must not be below min_schedule_interval")
        return self

    def settings(self) -> model.SchedulerSettings | None:
        given = self.model_fields_set
        return model.SchedulerSettings(**self.model_dump()) if given else None


class JobSpec(_Part):
    name: str
    project: str | None = None
    workload: model.Workload = Field(default=model.Workload.TRAINING, alias="class")
    priority: Annotated[int, Field(ge=-1_000_000, le=1_000_000)] | str = 0
    """A number, or the name of a class."""
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

    def submission(self, scenario: Scenario) -> model.Submission:
        return model.Submission(
            name=self.name,
            instance_type="",
            slots=self.needed,
            pools=self.pools or scenario.pool_names,
            priority=scenario.priority_of(self),
            priority_class=self.priority if isinstance(self.priority, str) else "",
            preemptible=self.preemptible,
            min_runtime=self.min_runtime,
            workload=self.workload,
            project=self.project or "",
        )


class Expectation(_Part):
    at: Seconds | Literal["end"]
    states: dict[str, str] = {}
    started: dict[str, list[Seconds]] = {}
    evictions: dict[str, int] = {}
    running_slots: dict[str, int] = {}
    """By project."""


class Scenario(_Part):
    pools: tuple[PoolSpec, ...] = Field(min_length=1)
    projects: tuple[ProjectSpec, ...] = ()
    departments: tuple[DepartmentSpec, ...] = ()
    classes: tuple[ClassSpec, ...] = ()
    scheduler: SchedulerSpec = SchedulerSpec()
    jobs: tuple[JobSpec, ...] = ()
    until: Duration | None = None
    expect: tuple[Expectation, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _default_project(cls, data: Any) -> Any:
        """Put the jobs that name no project into the default one, where there are projects."""
        if not isinstance(data, dict) or not data.get("projects"):
            return data
        jobs = [
            {"project": DEFAULT_PROJECT, **job} if isinstance(job, dict) else job
            for job in data.get("jobs") or []
        ]
        projects = list(data["projects"])
        names = [each.get("name") for each in projects if isinstance(each, dict)]
        used = {job.get("project") for job in jobs if isinstance(job, dict)}
        if DEFAULT_PROJECT in used and DEFAULT_PROJECT not in names:
            projects.append({"name": DEFAULT_PROJECT, "quota": 0, "weight": 0})
        return {**data, "projects": projects, "jobs": jobs}

    @model_validator(mode="after")
    def _projects_agree(self) -> Self:
        projects = [project.name for project in self.projects]
        departments = [department.name for department in self.departments]
        _unique("project", projects)
        _unique("department", departments)
        for project in self.projects:
            if project.department and project.department not in departments:
                raise ValueError(
                    f"project '{project.name}' is of the department '{project.department}'; there "
                    f"are {', '.join(departments) or 'no departments'}"
                )
        for job in self.jobs:
            if job.project and job.project not in projects:
                raise ValueError(
                    f"job '{job.name}' is of the project '{job.project}'; there are "
                    f"{', '.join(projects) or 'no projects'}"
                )
        return self

    @model_validator(mode="after")
    def _classes_agree(self) -> Self:
        classes = {each.name: each for each in self.classes}
        _unique("priority class", [each.name for each in self.classes])
        for each in self.classes:
            path = [each.name]
            while lower := classes[path[-1]].demote_to:
                if lower not in classes:
                    raise ValueError(f"class '{path[-1]}' demotes to '{lower}'; there is none")
                if lower in path:
                    raise ValueError(f"classes demote in a circle: {' -> '.join([*path, lower])}")
                if classes[lower].value >= classes[path[-1]].value:
                    raise ValueError(f"class '{path[-1]}' demotes to '{lower}', which is no lower")
                path.append(lower)
        for job in self.jobs:
            if isinstance(job.priority, str) and job.priority not in classes:
                raise ValueError(
                    f"job '{job.name}' has the priority '{job.priority}'; the classes are "
                    f"{', '.join(classes) or 'none'}"
                )
        return self

    def priority_of(self, job: JobSpec) -> int:
        """The number that the job's priority stands for."""
        if isinstance(job.priority, int):
            return job.priority
        return next(each.value for each in self.classes if each.name == job.priority)

    @model_validator(mode="after")
    def _quotas_agree(self) -> Self:
        """Quotas count over all pools together or pool by pool; the two are not mixed."""
        owners: tuple[ProjectSpec | DepartmentSpec, ...] = (*self.projects, *self.departments)
        amounts = [amount for owner in owners for amount in (owner.quota, owner.limit) if amount]
        if len({isinstance(amount, dict) for amount in amounts}) > 1:
            raise ValueError("quotas and limits are either all numbers or all maps by pool")
        for amount in amounts:
            for pool in amount if isinstance(amount, dict) else ():
                if pool not in self.pool_names:
                    raise ValueError(f"a quota or limit names the pool '{pool}'; there is none")
        return self

    @model_validator(mode="after")
    def _names_agree(self) -> Self:
        pools, jobs = [p.name for p in self.pools], [j.name for j in self.jobs]
        _unique("pool", pools)
        _unique("job", jobs)
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


def _unique(what: str, names: list[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"more than one {what} is named '{name}'")


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
