"""Projects as tables for people, and what users hold of what they may hold, as bars."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rich.text import Text

from slotq.document.document_text import text_of
from slotq.output.job_tables import columns, last_part
from slotq_core.model.projects import hours

if TYPE_CHECKING:
    from rich.console import RenderableType

    from slotq_core.wire.document.views import (
        BudgetView,
        DepartmentView,
        ProjectsView,
        ProjectView,
        QuotasView,
        UserQuotaView,
    )


def sharing_tables(view: ProjectsView) -> Iterator[RenderableType]:
    """The departments, if there are any, and the projects."""
    if view.departments:
        yield departments_table(view.departments)
        yield Text()
    yield projects_table(view.projects)


def departments_table(departments: Iterable[DepartmentView]) -> RenderableType:
    """The departments, one line each, as projects are shown. The quota is by default the sum of
    those of its projects."""
    shown = [*departments]
    past = ("PAST USE",) if any(map(past_use, shown)) else ()
    heads = (">WEIGHT", ">PRIORITY", "QUOTA", "SHARE", "USED", "OVER", "WAITING")
    table = columns("DEPARTMENT", *heads, *past, leaves=("PRIORITY", "WEIGHT", "OVER", "WAITING"))
    for department in shown:
        entry = department.department
        figures = ("quota", "share", "held", "over_quota", "waiting")
        table.add_row(
            department.name,
            amounts(entry.get("weight", "quota")),
            str(entry.get("priority", 0)),
            *(_of(department, figure) for figure in figures),
            *((past_use(department),) if past else ()),
        )
    return table


def projects_table(projects: Iterable[ProjectView]) -> RenderableType:
    """The projects, one line each: quota, weight, limit, share, use and demand; the spent
    budget, if any project has one; and past use, if it counts."""
    shown = [*projects]
    budgets = ("SPENT",) if any(project.budget for project in shown) else ()
    counts = any(map(past_use, shown))
    past = ("PAST USE",) if counts else ()
    heads = ("QUOTA", ">WEIGHT", "LIMIT", ">PRIORITY", "SHARE", "USED", "OVER", "WAITING")
    leaves = ("DEPARTMENT", "PRIORITY", "WEIGHT", "LIMIT", "SPENT", "PAST USE", "OVER", "WAITING")
    table = columns("PROJECT", "DEPARTMENT", *heads, *budgets, *past, leaves=leaves)
    for project in shown:
        entry = project.project
        table.add_row(
            project.name,
            entry.get("department", ""),
            amounts(entry.get("quota", 0)),
            amounts(entry.get("weight", "quota")),
            amounts(entry["limit"]) if "limit" in entry else "none",
            str(entry.get("priority", 0)),
            _of(project, "share"),
            amounts(project.used) or "0",
            _of(project, "over_quota"),
            _of(project, "waiting"),
            *((_spent(project.budget),) if budgets else ()),
            *((past_use(project),) if counts else ()),
        )
    return table if table.row_count else Text("there are no projects: everybody shares everything")


def project_page(project: ProjectView) -> RenderableType:
    """One project: its entry as a document has it, and what it uses."""
    used = amounts(project.used) or "nothing"
    lines = [f"{text_of(project.project)}# used: {used}"]
    if project.budget:
        lines.append(f"# spent: {_spent(project.budget)}, until {project.budget.resets_at}")
    if past := past_use(project):
        lines.append(f"# past use: {past}")
    return Text("\n".join(lines))


def _spent(budget: BudgetView | None) -> str:
    """What is spent of the budget: `412.5 of 500 slot-hours (soft)`."""
    if budget is None:
        return "no budget"
    spent, whole = (
        hours(round(slot_seconds * 1000))
        for slot_seconds in (budget.spent_slot_seconds, budget.slot_seconds)
    )
    return f"{spent} of {whole} slot-hours ({budget.beyond})"


def past_use(owner: ProjectView | DepartmentView) -> str:
    """The part of past use, and the part that the weight deserves, by pool: `45 % (due 25 %)`.
    Empty: past use does not count."""
    by_pool = {
        status.pool: f"{status.past_use:g} % (due {status.due:g} %)"
        for status in owner.standings
        if status.past_use is not None and status.due is not None
    }
    return amounts(by_pool.get("", by_pool)) if by_pool else ""


def _of(owner: ProjectView | DepartmentView, figure: str) -> str:
    """One figure of an owner, by pool and resource: `4`, `8 gpus`, `p5: 4, p4: 2`."""
    by_pool: dict[str, dict[str, int | float]] = {}
    for status in owner.standings:
        by_pool.setdefault(status.pool, {})[status.resource] = getattr(status, figure)
    if not any(amount for own in by_pool.values() for amount in own.values()):
        return "0"
    return amounts(by_pool[""] if by_pool.keys() == {""} else by_pool)


def amounts(value: Any) -> str:
    """Slots or amounts, by pool if they are: `4`, `4 slots, 32 gpus`, `p5: 4, p4: 2`."""
    if not isinstance(value, Mapping):
        return str(value)
    if all(isinstance(own, int | float) for own in value.values()) and "slots" in value:
        others = [f"{own} {name}" for name, own in value.items() if name != "slots"]
        slots = value["slots"]
        return ", ".join([f"{slots} slots", *others]) if others else str(slots)
    return ", ".join(f"{name}: {amounts(own)}" for name, own in value.items())


WIDTH = 20
"""The cells of a bar."""
FULL, EMPTY = "█", "░"
NO_CLASS = "(no class)"


def quotas_table(view: QuotasView) -> RenderableType:
    """One line for each user, pool and class: a bar, and used of total."""
    table = columns("USER", "POOL", "CLASS", "", ">USED", ">TOTAL", leaves=("",))
    for quota in view.quotas:
        table.add_row(
            last_part(quota.user),
            quota.pool,
            quota.priority_class or NO_CLASS,
            bar(quota),
            str(quota.used),
            "no limit" if quota.total is None else str(quota.total),
        )
    if table.row_count:
        return table
    return Text("no limits, and no slots held: what the pools have is open to you")


def bar(quota: UserQuotaView) -> Text:
    """The used part of the total; none without a limit. Any use shows, and only a full one fills
    the bar."""
    if not quota.total:
        return Text("" if quota.total is None else FULL * WIDTH, style="red")
    cells = quota.used * WIDTH // quota.total
    filled = min(WIDTH, max(cells, 1 if quota.used else 0))
    style = "red" if quota.used > quota.total else "yellow" if filled == WIDTH else "green"
    return Text(FULL * filled + EMPTY * (WIDTH - filled), style=style)
