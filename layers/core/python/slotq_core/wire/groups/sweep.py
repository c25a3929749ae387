"""JSON <-> model: what a sweep tries, and what it looks for."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from pydantic import ConfigDict, Field, FiniteFloat

from slotq_core.errors import InvalidRequest
from slotq_core.model.groups import StoredGroup, Sweep
from slotq_core.model.jobs import JobState
from slotq_core.model.reports import LONGEST_METRIC
from slotq_core.wire.base import BaseModel
from slotq_core.wire.views.jobs import JobView

LARGEST_SWEEP = 250_000
"""The most bytes of a sweep's parameters. They are kept in the group's record, which has 400 KB."""

Value = bool | int | FiniteFloat | str


class SweepBody(BaseModel):
    """The trials and the goal of a sweep."""

    model_config = ConfigDict(extra="forbid")
    parameters: list[dict[str, Value]] = Field(default=[])
    """The values that each member tries, in the order of the members; empty: not declared. For
    people: the values for the script are in the member's request."""
    metric: str = Field(default="", max_length=LONGEST_METRIC)
    """The metric that members are compared by: one of their MetricDefinitions, or one that their
    scripts report."""
    maximize: bool = False
    """Whether more of it is better."""
    goal: FiniteFloat | None = None
    """A value that is good enough: once a member ends with it, the queue cancels the others."""


class TrialView(BaseModel):
    """One member of a sweep."""

    name: str
    """The member's name."""
    job: str | None = None
    """The job of the trial: the member itself, or its latest retry. None if its record has expired,
    or the caller may not see it."""
    parameters: dict[str, Value] | None = None
    """The values that it tries; None if not declared. Shown only to the person who submitted the
    sweep."""
    state: str | None = None
    """The state of that job."""
    objective: float | None = None
    """The sweep's metric: the final one of an ended job, or the latest that a running one has
    reported."""
    best: bool = False
    """Whether it is the best of those that have completed; of equal ones the first."""


class SweepView(BaseModel):
    """The trials and the goal of a sweep."""

    metric: str = ""
    maximize: bool = False
    goal: float | None = None
    met_by: str = ""
    """The job that has reached the goal; empty: none yet."""
    trials: list[TrialView]
    """The members, in the order of the submission."""


def sweep_in(body: SweepBody, members: int) -> Sweep:
    """The sweep of a group with so many members. Raises InvalidRequest."""
    if body.parameters and len(body.parameters) != members:
        raise InvalidRequest(
            f"parameters has {len(body.parameters):,} entries for {members:,} members: give one "
            "for each, in their order",
            field="sweep.parameters",
        )
    size = len(json.dumps(body.parameters))
    if size > LARGEST_SWEEP:
        raise InvalidRequest(
            f"the parameters have {size:,} bytes, and the limit is {LARGEST_SWEEP:,}: make them "
            "shorter, or split the sweep",
            field="sweep.parameters",
        )
    if body.goal is not None and not body.metric:
        raise InvalidRequest("a goal needs a metric: say of what it is", field="sweep.metric")
    return Sweep(
        parameters=tuple(body.parameters),
        metric=body.metric,
        maximize=body.maximize,
        goal=body.goal,
    )


def sweep_view(
    stored: StoredGroup, jobs: Mapping[str, JobView], *, shows_parameters: bool
) -> SweepView | None:
    """The sweep as shown. `jobs`: by member, the member itself or its latest retry."""
    sweep = stored.sweep
    if sweep is None:
        return None
    names = stored.group.members
    parameters = (
        sweep.parameters if shows_parameters and len(sweep.parameters) == len(names) else None
    )
    trials = [
        TrialView(
            name=name,
            job=job.name if (job := jobs.get(name)) else None,
            parameters=None if parameters is None else dict(parameters[place]),
            state=job.state if job else None,
            objective=_objective(job, sweep.metric) if job else None,
        )
        for place, name in enumerate(names)
    ]
    if (best := best_of(trials, maximize=sweep.maximize)) is not None:
        best.best = True
    return SweepView(
        metric=sweep.metric,
        maximize=sweep.maximize,
        goal=sweep.goal,
        met_by=stored.met_by,
        trials=trials,
    )


def best_of(trials: Iterable[TrialView], *, maximize: bool) -> TrialView | None:
    """The best of the trials that have completed with an objective; of equal ones the first."""
    return next(iter(ranked(trials, maximize=maximize)), None)


def ranked(trials: Iterable[TrialView], *, maximize: bool) -> list[TrialView]:
    """The trials that have completed with an objective, the best first; equal ones in their
    order."""
    found = [
        (-trial.objective if maximize else trial.objective, place, trial)
        for place, trial in enumerate(trials)
        if trial.state == JobState.COMPLETED and trial.objective is not None
    ]
    return [trial for *_, trial in sorted(found, key=lambda entry: entry[:2])]


def _objective(job: JobView, metric: str) -> float | None:
    if metric in job.metrics:
        return job.metrics[metric]
    reported = job.progress.metrics.get(metric) if job.progress else None
    return None if reported is None or isinstance(reported, str) else float(reported)
