"""JSON schemas of what each command prints with --json.

`make schemas` writes docs/cli-output.schema.json. Tests compare the file with this module, and the
output of the commands with the schemas.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pydantic import BaseModel, RootModel
from pydantic.json_schema import models_json_schema

from slotq.output.json_views import (
    AccountView,
    CheckupView,
    DeploymentView,
    GraphView,
    LogLine,
    NotifiedView,
    SettingsView,
    UsageView,
    VersionView,
)
from slotq.simulate.run.metrics import Metrics
from slotq.simulate.whatif.answer import WhatIfView
from slotq_core.wire.base import ErrorView
from slotq_core.wire.configuration import LimitsView
from slotq_core.wire.document.views import (
    AppliedView,
    ConfigurationView,
    ProjectsView,
    ProjectView,
    QuotasView,
)
from slotq_core.wire.groups.views import GroupsView, GroupView
from slotq_core.wire.record import ChangesView
from slotq_core.wire.submission import SubmissionBody
from slotq_core.wire.verbs import VERBS
from slotq_core.wire.views.about import MeView
from slotq_core.wire.views.jobs import JobView, QueueView
from slotq_core.wire.views.nodes import NodesView
from slotq_core.wire.views.pools import PoolsView, PoolView, ReservationsView
from slotq_core.wire.views.usage import AttemptsPageView


class StateView(BaseModel):
    t: float
    """Time in the scenario, in seconds."""
    state: str


class SimulatedJob(BaseModel):
    state: str
    """The last state."""
    states: list[StateView]
    started: list[float]
    """Start times in seconds."""
    evictions: int


class SimulatedEvent(BaseModel):
    t: float
    event: str
    job: str
    pool: str | None
    reason: str


class DifferenceView(BaseModel):
    """An expectation that does not hold."""

    at: float
    what: str
    of: str
    expected: Any
    seen: Any


class SimulationView(BaseModel):
    """A scenario's run."""

    events: list[SimulatedEvent]
    jobs: dict[str, SimulatedJob]
    metrics: Metrics
    differences: list[DifferenceView] | None = None
    """Only with --check and --live."""


class AmountView(BaseModel):
    amount: float
    usd: float


class SumsView(BaseModel):
    """In USD."""

    per_job: float
    fixed_per_month: float
    per_month: float


class CostView(BaseModel):
    """What the queue costs."""

    usd: SumsView
    per_job: dict[str, AmountView]
    """By item of the bill, as is `fixed`, the cost of a month without jobs."""
    fixed: dict[str, AmountView]
    usd_for_one: dict[str, float]
    prices_as_of: str
    assumed: dict[str, float]
    counts: dict[str, dict[str, float]]
    """What was measured, by activity."""


class BackupView(BaseModel):
    """The result of `save` or `load`."""

    items: int
    table: str


class Variables(RootModel[dict[str, str]]):
    """Environment variables."""


OUTPUTS: dict[str, tuple[type[BaseModel], ...]] = {
    "submit": (JobView, SubmissionBody),
    "sweep": (GroupView,),
    "gang": (GroupView,),
    "ls": (QueueView,),
    "groups": (GroupsView,),
    "show": (JobView, QueueView, GroupView),
    "why": (JobView, QueueView, GroupView),
    "logs": (LogLine,),
    "watch": (JobView, QueueView),
    "graph": (GraphView,),
    **{verb.name: (JobView, QueueView) for verb in VERBS},
    "clone": (JobView, GroupView),
    "retry": (JobView, QueueView),
    "history": (JobView, QueueView, GroupView),
    "timeline": (AttemptsPageView,),
    "pools": (PoolsView, AccountView),
    "pools list": (PoolsView, AccountView),
    "pools show": (PoolView,),
    "pools set": (PoolsView,),
    "pools resize": (PoolsView,),
    "pools drain": (PoolsView,),
    "pools pause": (PoolsView,),
    "pools resume": (PoolsView,),
    "pools remove": (PoolsView,),
    "pools history": (ChangesView,),
    "nodes": (NodesView,),
    "reserve": (ReservationsView,),
    "reservations": (ReservationsView,),
    "reservations list": (ReservationsView,),
    "reservations cancel": (ReservationsView,),
    "quota": (QuotasView,),
    "quota set": (AppliedView,),
    "projects": (ProjectsView,),
    "projects list": (ProjectsView,),
    "projects show": (ProjectView,),
    "projects set": (AppliedView,),
    "projects remove": (AppliedView,),
    "notify test": (NotifiedView,),
    "config export": (ConfigurationView,),
    "config diff": (AppliedView,),
    "config apply": (AppliedView,),
    "config history": (ChangesView,),
    "limits": (LimitsView,),
    "limits set": (LimitsView,),
    "limits rule": (LimitsView,),
    "usage": (UsageView,),
    "configure": (SettingsView,),
    "whoami": (MeView,),
    "doctor": (CheckupView,),
    "deploy": (DeploymentView,),
    "whatif": (WhatIfView, AppliedView),
    "simulate": (SimulationView,),
    "local env": (Variables,),
    "cost": (CostView,),
    "backup save": (BackupView,),
    "backup load": (BackupView,),
    "version": (VersionView,),
}
"""The views a command may print. (With --dry-run, `submit` prints the request itself.)"""


def document() -> dict[str, Any]:
    """The schema: one definition per command, under its name, and one for errors."""
    models = {view for views in OUTPUTS.values() for view in views} | {ErrorView}
    ordered = sorted(models, key=lambda model: model.__name__)
    _, schemas = models_json_schema(
        [(model, "serialization") for model in ordered], ref_template="#/$defs/{model}"
    )
    commands = {
        f"slotq {name}": {"anyOf": [{"$ref": f"#/$defs/{view.__name__}"} for view in views]}
        for name, views in OUTPUTS.items()
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "What the commands of slotq print with --json",
        "description": "A command that follows something (watch, logs, ls --watch) prints one "
        "such document on each line. Errors are an ErrorView on stderr.",
        "$defs": {**dict(sorted(schemas["$defs"].items())), **commands},
    }


if __name__ == "__main__":
    json.dump(document(), sys.stdout, indent=2)
    sys.stdout.write("\n")
