"""The results of a sweep as a table for people."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from slotq.output.group_tables import in_states
from slotq_core.model.jobs import JobState
from slotq_core.wire.groups.sweep import SweepView, TrialView
from slotq_core.wire.groups.views import GroupView

BEST = "*"
"""Marks the best trial."""


def sweep_page(group: GroupView, told: SweepView, trials: Sequence[TrialView]) -> RenderableType:
    """What a sweep looks for, how far it is, and a line for each of the trials."""
    facts = Table.grid(padding=(0, 2))
    best = next((trial for trial in told.trials if trial.best), None)
    failed = next((it.job or it.name for it in told.trials if it.state == JobState.FAILED), None)
    for name, value in (
        ("sweep", group.name),
        ("state", group.state),
        ("jobs", f"{group.members}: {in_states(group.states)}"),
        ("at once", f"at most {group.max_parallel}"),
        ("objective", _objective(told)),
        ("best", _best(best) if best else ""),
        ("failed", f"`slotq logs {failed}` says why" if failed else ""),
        ("project", group.project),
        ("submitter", group.submitter),
        ("submitted", group.submitted_at),
    ):
        if value:
            facts.add_row(Text(name, style="bold"), Text(value, overflow="fold"))
    return Group(facts, Text(), trial_table(told, trials))


def trial_table(told: SweepView, trials: Sequence[TrialView]) -> RenderableType:
    """One line for each trial, with a column for each parameter."""
    parameters = list(dict.fromkeys(name for trial in trials for name in trial.parameters or {}))
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for column in ("NAME", "STATE"):
        table.add_column(column)
    for parameter in (*parameters, told.metric):
        if parameter:
            table.add_column(Text(parameter), justify="right", overflow="fold")
    for trial in trials:
        own = trial.parameters or {}
        cells = [BEST if trial.best else "", trial.job or trial.name, trial.state or "expired"]
        cells += [_value(own.get(name)) for name in parameters]
        if told.metric:
            cells.append(_value(trial.objective))
        table.add_row(*map(Text, cells))
    return table


def _objective(told: SweepView) -> str:
    if not told.metric:
        return ""
    goal = f"; good enough: {told.goal:g}" if told.goal is not None else ""
    met = f", reached by {told.met_by}" if told.met_by else ""
    return f"{told.metric}, the {'largest' if told.maximize else 'smallest'} is best{goal}{met}"


def _best(trial: TrialView) -> str:
    tried = ", ".join(f"{name}={_value(it)}" for name, it in (trial.parameters or {}).items())
    return f"{_value(trial.objective)}  {trial.job or trial.name}  {tried}".rstrip()


def _value(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
