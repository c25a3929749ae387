"""Projects as people see them: what is spent of a budget, where any project has one."""

from __future__ import annotations

import io

from rich.console import Console, RenderableType

from slotq.output.project_tables import (
    departments_table,
    project_page,
    projects_table,
    sharing_tables,
)
from slotq_core.wire.document.views import (
    BudgetView,
    DepartmentView,
    ProjectsView,
    ProjectView,
    ShareStatusView,
)

SPEECH = ProjectView(name="speech", project={"name": "speech"}, used={}, standings=[])
VISION = ProjectView(
    name="vision",
    project={"name": "vision", "budget": 500},
    used={},
    standings=[],
    budget=BudgetView(
        slot_seconds=500 * 3600,
        beyond="soft",
        spent_slot_seconds=412.5 * 3600,
        resets_at="2026-12-01T00:00:00.000Z",
    ),
)


def status(past_use: float, pool: str = "") -> ShareStatusView:
    amounts: dict[str, int] = dict.fromkeys(
        ("quota", "share", "held", "stopping", "waiting", "over_quota"), 1
    )
    return ShareStatusView(
        pool=pool, resource="slots", limit=None, past_use=past_use, due=25.0, **amounts
    )


def printed(what: RenderableType) -> list[str]:
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(what)
    return [line.rstrip() for line in console.export_text().splitlines()]


def test_the_table_shows_what_is_spent_if_any_project_has_a_budget() -> None:
    head, vision, speech = printed(projects_table([VISION, SPEECH]))
    assert head.endswith("SPENT")
    assert vision.endswith("412.5 of 500 slot-hours (soft)")
    assert speech.endswith("no budget")
    assert not any("SPENT" in line for line in printed(projects_table([SPEECH])))


def test_the_page_says_when_the_budget_begins_anew() -> None:
    assert printed(project_page(VISION))[-1] == (
        "# spent: 412.5 of 500 slot-hours (soft), until 2026-12-01T00:00:00.000Z"
    )


def test_the_table_shows_past_use_if_it_counts() -> None:
    counts = SPEECH.model_copy(update={"standings": [status(45.3)]})
    head, speech, vision = printed(projects_table([counts, VISION]))
    assert head.endswith("PAST USE")
    assert speech.endswith("45.3 % (due 25 %)")
    assert vision.endswith("(soft)")
    assert not any("PAST USE" in line for line in printed(projects_table([SPEECH])))
    assert printed(project_page(counts))[-1] == "# past use: 45.3 % (due 25 %)"
    by_pool = SPEECH.model_copy(update={"standings": [status(50, "p"), status(20, "q")]})
    assert "p: 50 % (due 25 %), q: 20 % (due 25 %)" in printed(projects_table([by_pool]))[1]


def test_departments_come_before_their_projects_if_there_are_any() -> None:
    science = DepartmentView(
        name="science", department={"name": "science", "weight": 3}, standings=[status(45.3)]
    )
    head, line = printed(departments_table([science]))
    assert head.split() == [
        "DEPARTMENT", "WEIGHT", "PRIORITY", "QUOTA", "SHARE", "USED", "OVER", "WAITING",
        "PAST", "USE",
    ]  # fmt: skip
    assert line.split()[:8] == ["science", "3", "0", "1", "1", "1", "1", "1"]
    assert line.endswith("45.3 % (due 25 %)")
    view = ProjectsView(revision=1, projects=[SPEECH], departments=[science])
    assert len([*sharing_tables(view)]) == 3
    assert len([*sharing_tables(view.model_copy(update={"departments": []}))]) == 1
