"""Groups of jobs as tables for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from slotq.output.columns import queue_table
from slotq.output.json_views import GroupSummary, GroupsView
from slotq.output.plain_table import LIVING
from slotq_core.model.jobs import JobState
from slotq_core.wire.groups.views import GroupView
from slotq_core.wire.views import JobView


def groups_view(jobs: Iterable[JobView], *, ended: bool) -> GroupsView:
    """The groups of these jobs, in the order of their names; with `ended`, also those whose jobs
    have all ended."""
    states: dict[str, Counter[str]] = {}
    for job in jobs:
        if job.group:
            states.setdefault(job.group, Counter())[job.state] += 1
    found = [
        GroupSummary(name=name, states=dict(count))
        for name, count in sorted(states.items())
        if ended or any(state in LIVING for state in count)
    ]
    return GroupsView(groups=found)


def groups_table(view: GroupsView) -> RenderableType:
    """One line for each group."""
    table = Table(box=None, pad_edge=False)
    for column in ("name", "jobs", "states"):
        table.add_column(column, justify="right" if column == "jobs" else "left")
    for group in view.groups:
        table.add_row(group.name, str(sum(group.states.values())), in_states(group.states))
    return table


def group_page(group: GroupView) -> RenderableType:
    """Everything known about a group, and its jobs."""
    facts = Table.grid(padding=(0, 2))
    for name, value in (
        ("group", group.name),
        ("jobs", f"{group.members}: {in_states(group.states)}"),
        ("at once", f"at most {group.max_parallel}"),
        ("project", group.project),
        ("submitter", group.submitter),
        ("submitted", group.submitted_at),
    ):
        if value:
            facts.add_row(Text(name, style="bold"), Text(value, overflow="fold"))
    return Group(facts, Text(), queue_table(group.jobs))


def in_states(states: Mapping[str, int]) -> str:
    """The numbers as text, in the order of the states: `5 pending, 2 running`."""
    return ", ".join(f"{states[state]} {state.value}" for state in JobState if states.get(state))
