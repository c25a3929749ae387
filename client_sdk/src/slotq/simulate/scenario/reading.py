"""Read scenario files."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from slotq.document.yaml_file import Document, Place, told
from slotq.errors import ScenarioError
from slotq.simulate.scenario.contents import SECTIONS
from slotq.simulate.scenario.scenario import Scenario
from slotq.simulate.scenario.sections import ChangeSpec, WhySpec
from slotq.simulate.scenario.trace import Trace
from slotq_core.wire.document.faults import Keys, Loc, faults_of, spelled
from slotq_core.wire.document.sections import Section


def load(path: Path, trace: Path | None = None) -> Scenario:
    """Read a scenario file, and the jobs of a trace into it. Raises ScenarioError."""
    document = Document(path, ScenarioError)
    data, own, rows = document.data, 0, None
    if trace is not None and isinstance(data, dict):
        jobs = data.get("jobs") or []
        rows = Trace(trace, projects=bool(data.get("projects")))
        if isinstance(jobs, list):
            own, data = len(jobs), {**data, "jobs": [*jobs, *rows.jobs]}

    def where(loc: Loc) -> Place:
        place = loc[1] if loc[:1] == ("jobs",) and len(loc) > 1 else None
        if rows is not None and isinstance(place, int) and place >= own:
            return rows.place(place - own, loc[2:])
        return path, document.line(loc), spelled(loc)

    try:
        return Scenario.model_validate(data)
    except ValidationError as error:
        raise ScenarioError(told(faults_of(error, _keys(), "a scenario"), where)) from None


def _keys() -> Keys:
    deeper: dict[str, type[Section]] = {"pools.changes": ChangeSpec, "expect.why": WhySpec}
    return {"": Scenario, **deeper, **SECTIONS}
