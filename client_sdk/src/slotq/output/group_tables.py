"""Groups of jobs as tables for people, and the results of a sweep."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from slotq.output.columns import queue_table
from slotq.output.job_tables import attempts_table, columns, explanation
from slotq.output.plain_table import LIVING
from slotq_core.model.jobs import TERMINAL_STATES, JobState

if TYPE_CHECKING:
    from slotq_core.wire.groups.sweep import SweepView, TrialView
    from slotq_core.wire.groups.views import GangView, GroupSummaryView, GroupsView, GroupView
    from slotq_core.wire.views.jobs import JobView


def groups_of(jobs: Iterable[JobView], *, ended: bool) -> list[GroupSummaryView]:
    """The groups of these jobs by name, by the jobs' own views; with `ended`, also those whose jobs
    have all ended."""
    from slotq_core.wire.groups.views import GroupSummaryView

    states: dict[str, Counter[str]] = {}
    for job in jobs:
        if job.group:
            states.setdefault(job.group, Counter())[job.state] += 1
    return [
        GroupSummaryView(name=name, members=count.total(), states=dict(count))
        for name, count in sorted(states.items())
        if ended or any(state in LIVING for state in count)
    ]


def groups_table(view: GroupsView) -> RenderableType:
    """One line for each group."""
    table = columns("NAME", "KIND", "STATE", ">JOBS", "STATES", leaves=("KIND", "JOBS"))
    for group in view.groups:
        jobs, states = str(group.members), in_states(group.states)
        table.add_row(Text(group.name), kind(group), group.state or "-", jobs, states)
    return table


def kind(group: GroupSummaryView) -> str:
    """`gang` or `sweep`; `-` if the queue did not say."""
    if group.gang is not None:
        return "gang"
    return "-" if group.max_parallel is None else "sweep"


def group_page(group: GroupView) -> RenderableType:
    """Everything known about a group, and its jobs."""
    facts = Table.grid(padding=(0, 2))
    for name, value in _facts(group):
        if value:
            facts.add_row(Text(name, style="bold"), Text(value, overflow="fold"))
    return Group(facts, Text(), queue_table(group.jobs))


def _facts(group: GroupView) -> Iterator[tuple[str, str]]:
    yield "group", group.name
    yield "state", group.state
    yield "jobs", f"{group.members}: {in_states(group.states)}"
    if group.max_parallel is not None:
        yield "at once", f"at most {group.max_parallel}"
    if group.gang is not None:
        yield "together", rules(group.gang, group.members)
        yield "missing", ", ".join(group.gang.missing)
    yield "why", _why(group)
    yield "project", group.project
    yield "submitter", group.submitter
    yield "submitted", group.submitted_at
    yield "ended", _ended_at(group)
    yield "result", group.result or ""


def _ended_at(group: GroupView) -> str:
    """When the last member ended; empty while one goes on."""
    times = [job.changed_at for job in group.jobs]
    ended = all(job.state in TERMINAL_STATES for job in group.jobs)
    return max(times, default="") if ended else ""


def rules(gang: GangView, members: int) -> str:
    """The rules of a gang, as people say them: `at least 2 of 3, a among them, in one pool`."""
    least = gang.min_members
    all_of_it = least is None or least >= members
    words = [f"all {members}" if all_of_it else f"at least {least} of {members}"]
    if gang.mandatory and not all_of_it:
        words.append(f"{' and '.join(gang.mandatory)} among them")
    words += ["in one pool"] if gang.same_pool else []
    words += ["elastic"] if gang.elastic else []
    words += [f"ends with {gang.ends_with}"] if gang.ends_with else []
    return ", ".join(words)


def _why(group: GroupView) -> str:
    """Why the group waits, or will never run; else empty."""
    return group.message or (group.reason.text if group.reason else "")


def group_explanation(group: GroupView) -> str:
    """The group's state in one line, then why it waits."""
    line = f"{group.name}: {group.state or 'no job is left'} ({in_states(group.states)})"
    reasons = [f"  {text}" for text in (_why(group),) if text]
    return "\n".join([line, *reasons])


def group_history(group: GroupView) -> RenderableType:
    """The attempts of each job that has any, under the group's line."""
    parts: list[RenderableType] = [Text(group_explanation(group))]
    for job in group.jobs:
        parts += [Text(), Text(explanation(job).partition("\n")[0])]
        if job.attempts:
            parts.append(attempts_table(job.attempts))
    return Group(*parts)


def in_states(states: Mapping[str, int]) -> str:
    """The numbers as text, in the order of the states: `5 pending, 2 running`."""
    return ", ".join(f"{states[state]} {state.value}" for state in JobState if states.get(state))


BEST = "*"
"""Marks the best trial."""


def sweep_page(group: GroupView, sweep: SweepView, trials: Sequence[TrialView]) -> RenderableType:
    """A sweep's objective and progress, and a line for each trial."""
    facts = Table.grid(padding=(0, 2))
    best = next((trial for trial in sweep.trials if trial.best), None)
    failed = next(
        (trial.job or trial.name for trial in sweep.trials if trial.state == JobState.FAILED), None
    )
    for name, value in (
        ("sweep", group.name),
        ("state", group.state),
        ("jobs", f"{group.members}: {in_states(group.states)}"),
        ("at once", f"at most {group.max_parallel}"),
        ("objective", _objective(sweep)),
        ("best", _best(best) if best else ""),
        ("failed", f"`slotq logs {failed}` says why" if failed else ""),
        ("project", group.project),
        ("submitter", group.submitter),
        ("submitted", group.submitted_at),
    ):
        if value:
            facts.add_row(Text(name, style="bold"), Text(value, overflow="fold"))
    return Group(facts, Text(), trial_table(sweep, trials))


def trial_table(sweep: SweepView, trials: Sequence[TrialView]) -> RenderableType:
    """One line for each trial, with a column for each parameter."""
    parameters = list(dict.fromkeys(name for trial in trials for name in trial.parameters or {}))
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for column in ("NAME", "STATE"):
        table.add_column(column)
    for parameter in (*parameters, sweep.metric):
        if parameter:
            table.add_column(Text(parameter), justify="right", overflow="fold")
    for trial in trials:
        own = trial.parameters or {}
        cells = [BEST if trial.best else "", trial.job or trial.name, trial.state or "expired"]
        cells += [_value(own.get(name)) for name in parameters]
        if sweep.metric:
            cells.append(_value(trial.objective))
        table.add_row(*map(Text, cells))
    return table


def _objective(sweep: SweepView) -> str:
    if not sweep.metric:
        return ""
    goal = f"; good enough: {sweep.goal:g}" if sweep.goal is not None else ""
    met = f", reached by {sweep.met_by}" if sweep.met_by else ""
    return f"{sweep.metric}, the {'largest' if sweep.maximize else 'smallest'} is best{goal}{met}"


def _best(trial: TrialView) -> str:
    tried = ", ".join(f"{name}={_value(value)}" for name, value in (trial.parameters or {}).items())
    return f"{_value(trial.objective)}  {trial.job or trial.name}  {tried}".rstrip()


def _value(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
