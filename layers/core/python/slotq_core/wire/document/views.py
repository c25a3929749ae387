"""Requests and answers of the API about the configuration as a document."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from pydantic import ConfigDict, Field, ValidationError

from slotq_core.errors import InvalidRequest
from slotq_core.model.projects import BudgetStatus, ShareStatus
from slotq_core.model.sharing import Settings
from slotq_core.timestamps import iso, seconds
from slotq_core.wire import VERSION
from slotq_core.wire.base import BaseModel
from slotq_core.wire.body import invalid, json_object
from slotq_core.wire.document.contents import read
from slotq_core.wire.document.differences import Difference
from slotq_core.wire.document.sections import ProjectSection
from slotq_core.wire.document.writing import department_entry, doubled_names, project_entry, written

Document = dict[str, Any]


class UserQuota(Protocol):
    """As `admission.user_quotas.UserQuota`."""

    @property
    def user(self) -> str: ...
    @property
    def pool(self) -> str: ...
    @property
    def priority_class(self) -> str: ...
    @property
    def used(self) -> int: ...
    @property
    def total(self) -> int | None: ...
    @property
    def beyond(self) -> tuple[str, ...]: ...


NO_BUDGETS: Mapping[str, BudgetStatus] = {}


class ConfigurationBody(BaseModel):
    """A whole configuration, and the revision that it was decided on."""

    model_config = ConfigDict(extra="forbid")
    configuration: Document
    """The document (docs/configuration.schema.json). What it leaves out gets its default."""
    revision: int | None = Field(default=None, ge=0, strict=True)
    """An outdated revision is refused. Without one, the document replaces any configuration."""


class ConfigurationView(BaseModel):
    version: int = VERSION
    revision: int
    configuration: Document
    """The document of this configuration, without values that are defaults."""


class EntryChangeView(BaseModel):
    """An entry of the document that differs."""

    section: str
    """`pools`, `departments`, `projects`, `limits`, `operators`, `scheduler` or another section."""
    name: str
    """The entry's name; empty: the whole section, or the order of its entries."""
    before: Any
    """The entry in the document before; null: no such entry."""
    after: Any


class AppliedView(BaseModel):
    """The outcome of a change."""

    version: int = VERSION
    revision: int
    """The revision now."""
    dry_run: bool = False
    """Whether nothing was written."""
    changes: list[EntryChangeView]
    """The entries that differ; empty: nothing had to change."""
    moved: int = 0
    """Jobs that were moved to another project."""
    warnings: list[str] = Field(default=[])
    """Warnings about the current configuration, as sentences."""


class ShareStatusView(BaseModel):
    """The amounts of one resource that a project deserves, holds and waits for. Where projects
    share nodes, they may be parts of units."""

    pool: str
    """The pool where the quota counts; empty: all pools together."""
    resource: str
    quota: int | float
    share: int | float
    """The fair share now."""
    limit: int | float | None
    held: int | float
    """Held by jobs that go on."""
    stopping: int | float
    """Held by jobs that are being stopped."""
    waiting: int | float
    """Asked for by waiting jobs, at most what the pools have."""
    over_quota: int | float
    """The part of `held` above the quota."""
    past_use: float | None = None
    """The project's percentage of all past use; null: past use does not count."""
    due: float | None = None
    """The percentage of past use that its weight deserves."""


class BudgetView(BaseModel):
    """The budget of a project for a calendar month, and its spending."""

    slot_seconds: float
    """The budget."""
    beyond: str
    """`soft`: beyond it, the project's slots count as over quota; `hard`: nothing starts."""
    spent_slot_seconds: float
    """The use of its attempts in this month, running ones included."""
    resets_at: str
    """When the budget is reset."""


class ProjectView(BaseModel):
    """A project, and its use."""

    name: str
    project: Document
    """The project's entry in the document."""
    used: dict[str, dict[str, int | float]]
    """The amounts that its jobs hold, by pool, as quotas count them."""
    standings: list[ShareStatusView]
    """By pool, where quotas are by pool, and resource."""
    budget: BudgetView | None = None
    """None: no budget."""


class DepartmentView(BaseModel):
    """A department, and what its projects use together."""

    name: str
    department: Document
    """The department's entry in the document."""
    standings: list[ShareStatusView]
    """By pool, where quotas are by pool, and resource."""


class UserQuotaView(BaseModel):
    """The limit and the use of a user in one pool and class."""

    user: str
    """The person, as in GET /me."""
    pool: str
    priority_class: str
    """Empty: numbers that are the value of no class."""
    used: int
    """Slots that the user's jobs hold, those included that are being stopped."""
    total: int | None
    """Null: no limit."""
    beyond: list[str] = Field(default=[])
    """The newest jobs beyond the limit, as far as they may be evicted; the newest first."""


class QuotasView(BaseModel):
    version: int = VERSION
    quotas: list[UserQuotaView]
    """The quotas above 0 or in use: by user, pool and class, the highest class first."""
    contact: str = ""
    """The contact for a larger quota."""


class ProjectsView(BaseModel):
    version: int = VERSION
    revision: int
    projects: list[ProjectView]
    """The oldest first."""
    departments: list[DepartmentView] = Field(default=[])


def parse_configuration(body: str | bytes) -> tuple[Settings, int | None]:
    """Return the settings in a body, and the revision.

    Raises InvalidRequest with every fault. Its paths are those of the document.
    """
    raw = json_object(body, what="the configuration")
    try:
        taken = ConfigurationBody.model_validate(raw)
    except ValidationError as error:
        raise invalid(error) from None
    return read(taken.configuration), taken.revision


def parse_project(body: str | bytes) -> tuple[Mapping[str, Any], int | None]:
    """Return the keys of a project's entry in a body, and the revision. Raises InvalidRequest."""
    keys = dict(json_object(body, what="keys of the project's entry"))
    revision = keys.pop("revision", None)
    whole = isinstance(revision, int) and not isinstance(revision, bool) and revision >= 0
    if revision is not None and not whole:
        raise InvalidRequest("revision: a whole number is needed", field="revision")
    if "name" in keys:
        raise InvalidRequest("name: a project keeps its name", field="name")
    if not keys:
        known = ", ".join(sorted({*ProjectSection.keys()} - {"name"}))
        raise InvalidRequest(f"say what to change: {known}")
    return keys, revision


def configuration_view(settings: Settings, revision: int) -> ConfigurationView:
    return ConfigurationView(revision=revision, configuration=written(settings))


def entry_change_view(difference: Difference) -> EntryChangeView:
    return EntryChangeView(
        section=difference.section,
        name=difference.name,
        before=difference.before,
        after=difference.after,
    )


def applied_view(
    found: Iterable[Difference],
    *,
    revision: int,
    dry_run: bool = False,
    moved: int = 0,
    warnings: Iterable[str] = (),
) -> AppliedView:
    changes = [entry_change_view(change) for change in found]
    return AppliedView(
        revision=revision, dry_run=dry_run, changes=changes, moved=moved, warnings=[*warnings]
    )


def projects_view(
    settings: Settings,
    used: Mapping[str, Mapping[str, Mapping[str, int | float]]],
    standings: Iterable[ShareStatus],
    budgets: Mapping[str, BudgetStatus] = NO_BUDGETS,
    *,
    revision: int,
) -> ProjectsView:
    own: dict[tuple[str, bool], list[ShareStatusView]] = {}
    for status in standings:
        own.setdefault((status.name, status.is_department), []).append(_share_status(status))
    doubled = doubled_names(settings.pools)
    departments = [
        DepartmentView(
            name=department.name,
            department=department_entry(department, doubled),
            standings=own.get((department.name, True), []),
        )
        for department in settings.sharing.departments
    ]
    views = [
        ProjectView(
            name=project.name,
            project=project_entry(project, doubled),
            used={pool: dict(held) for pool, held in used.get(project.name, {}).items()},
            standings=own.get((project.name, False), []),
            budget=_budget(budgets[project.name]) if project.name in budgets else None,
        )
        for project in settings.sharing.projects
    ]
    return ProjectsView(revision=revision, projects=views, departments=departments)


def quotas_view(quotas: Iterable[UserQuota], contact: str) -> QuotasView:
    views = [
        UserQuotaView(
            user=quota.user,
            pool=quota.pool,
            priority_class=quota.priority_class,
            used=quota.used,
            total=quota.total,
            beyond=[*quota.beyond],
        )
        for quota in quotas
    ]
    return QuotasView(quotas=views, contact=contact)


def _budget(status: BudgetStatus) -> BudgetView:
    return BudgetView(
        slot_seconds=seconds(status.budget.slot_ms),
        beyond=status.budget.beyond.value,
        spent_slot_seconds=seconds(status.spent),
        resets_at=iso(status.resets_at),
    )


def _share_status(status: ShareStatus) -> ShareStatusView:
    return ShareStatusView(
        pool=status.scope,
        resource=status.resource,
        quota=status.quota,
        share=status.share,
        limit=status.limit,
        held=status.held,
        stopping=status.stopping,
        waiting=status.waiting,
        over_quota=status.over_quota,
        past_use=status.past_use,
        due=status.due,
    )
