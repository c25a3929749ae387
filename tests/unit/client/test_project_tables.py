"""Projects as people see them: what is spent of a budget, where any project has one."""

from __future__ import annotations

import io

from rich.console import Console, RenderableType

from slotq.output.project_tables import project_page, projects_table
from slotq_core.wire.document.views import BudgetView, ProjectView

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
