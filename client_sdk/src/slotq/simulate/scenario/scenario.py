"""The scenario file, read and checked: a world, its submissions and the expected results.

The file counts in seconds, all other code in milliseconds. A trace adds a table of jobs, one per
line, to a scenario that gives the world. Its columns are `job,project,submit_s,runtime_s,slots`, in
any order. The first line names them.

See docs/scenario-file.md and docs/simulate.md#--trace.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from io import StringIO
from pathlib import Path
from typing import Any, Self

from pydantic import ValidationError, model_validator

from slotq.document.yaml_file import Document, Place, faults_text, read_text
from slotq.errors import ScenarioError
from slotq.simulate.scenario.checks import CHECKS
from slotq.simulate.scenario.contents import SECTIONS, Contents
from slotq.simulate.scenario.sections import (
    ChangeSpec,
    GroupSpec,
    JobSpec,
    WhySpec,
)
from slotq_core.admission.instances.instance_contents import counting
from slotq_core.admission.user_groups import users_among
from slotq_core.model.capacity.work import WorkKind, work_of
from slotq_core.model.groups import Group
from slotq_core.model.jobs import SETTINGS, Submission
from slotq_core.model.sharing import Sharing
from slotq_core.model.snapshot import Snapshot
from slotq_core.model.users import AUTO, AUTO_VALUE
from slotq_core.policy.state.user_limits import Rights
from slotq_core.spelling import as_known
from slotq_core.wire.document.faults import (
    DocumentFault,
    Keys,
    Loc,
    faults_of,
    refuse,
    said,
    spelled,
)
from slotq_core.wire.document.models import (
    class_of,
    department_of,
    fair_share_of,
    project_of,
    scheduler_of,
    user_group_of,
    user_of,
)
from slotq_core.wire.document.sections import Section


class Scenario(Contents):
    """The world, its submissions and the expected results, all of which agree."""

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        faults = [fault for check in CHECKS for fault in check(self)]
        if faults:
            refuse(*faults)
        return self

    @cached_property
    def rights(self) -> Rights:
        """The classes, and the user limits that submissions must respect."""
        shared, users = self.shared, self.configuration().users
        return Rights(shared.classes, users, shared.user_groups, contact=shared.contact)

    def class_of(self, job: JobSpec) -> str:
        """The job's priority class, or the default class if it names none. Empty: a number
        instead."""
        if job.priority is None:
            return AUTO if self.classes else ""
        if not isinstance(job.priority, str):
            return ""
        return as_known(job.priority, [*self.known_classes, AUTO]) or job.priority

    def priority_of(self, job: JobSpec) -> int:
        """The job's priority as a number."""
        class_name = self.class_of(job)
        if not class_name:
            return job.priority if isinstance(job.priority, int) else 0
        return AUTO_VALUE if class_name == AUTO else self.known_classes[class_name].value

    @cached_property
    def shared(self) -> Sharing:
        """Who may use how much."""
        return Sharing(
            departments=tuple(
                department_of(department, self.resources) for department in self.departments
            ),
            projects=tuple(project_of(project, self.resources) for project in self.projects),
            classes=tuple(map(class_of, self.classes)),
            users=tuple(map(user_of, self.users)),
            user_groups=tuple(map(user_group_of, self.user_groups)),
            contact=self.people.contact,
            session_roles=self.people.session_roles,
            weights=self.sharing.weights,
            scheduler=scheduler_of(self.scheduler),
            fair_share=fair_share_of(self.fair_share),
        ).weighed()

    def configuration(self) -> Snapshot:
        """The world before the first job."""
        return Snapshot(
            pools=counting((spec.pool for spec in self.pools), self.shared),
            projects=self.shared.projects,
            departments=self.shared.departments,
            classes=self.shared.classes,
            users=users_among(self.shared, {job.user for job in self.jobs}),
            user_groups=self.shared.user_groups,
            scheduler=self.shared.scheduler,
            fair_share=self.shared.fair_share,
            groups=tuple(self._group(spec) for spec in self.groups),
        )

    def stop_times(self) -> dict[str, int]:
        """How long a stop takes (ms), by pool."""
        return {pool.name: pool.stop_seconds for pool in self.pools}

    def start_times(self) -> dict[str, int]:
        """How long a start takes (ms), by pool."""
        return {pool.name: pool.start_seconds for pool in self.pools if pool.start_seconds}

    def release_times(self) -> dict[str, int]:
        """How long it takes until released warm instances are gone (ms), by pool."""
        return {pool.name: pool.release_seconds for pool in self.pools}

    def node_start_times(self) -> dict[str, int]:
        """How long a node's start takes (ms), by pool."""
        return {pool.name: pool.nodes.start_seconds for pool in self.pools if pool.nodes}

    def one_person_nodes(self) -> frozenset[str]:
        """The pools whose nodes take one person's jobs at a time."""
        return frozenset(pool.name for pool in self.pools if pool.nodes and not pool.nodes.uids)

    def changes(self) -> Iterator[tuple[int, str, ChangeSpec]]:
        """The changes of pools in order of time: when, in which pool, and what."""
        every = ((change.at, pool.name, change) for pool in self.pools for change in pool.changes)
        yield from sorted(every, key=lambda change: change[0])

    def asks(self) -> dict[int | str, set[str]]:
        """The jobs whose wait the scenario asks about, by moment."""
        found: dict[int | str, set[str]] = {}
        for expectation in self.expect:
            found.setdefault(expectation.at, set()).update(why.job for why in expectation.why)
        return {at: names for at, names in found.items() if names}

    def pools_of(self, work: WorkKind) -> tuple[str, ...]:
        """The names of the pools that hold this kind of work."""
        return tuple(pool.name for pool in self.pools if pool.work is work)

    def submission(self, job: JobSpec) -> Submission:
        return Submission(
            name=job.name,
            instance_type="",
            demand=job.needed,
            pools=tuple(job.parts) or job.pools or self.pools_of(work_of(job.name)),
            parts=tuple(job.parts.items()),
            priority=self.priority_of(job),
            priority_class=self.class_of(job),
            **{name: getattr(job, name) for name in SETTINGS if name in JobSpec.model_fields},
            project=job.project or "",
            group=job.group or "",
            checkpoints=job.checkpoint,
            after=job.after,
            after_any=job.after_any,
            role=job.role,
        )

    def _group(self, spec: GroupSpec) -> Group:
        last = spec.ends_with or ""
        return Group(
            name=spec.name,
            members=tuple(job.name for job in self.jobs if job.group == spec.name),
            min_members=spec.min_members,
            mandatory=(*spec.mandatory, *({last} - {"", *spec.mandatory})),
            same_pool=spec.same_pool or spec.elastic,
            elastic=spec.elastic,
            ends_with=last,
            heartbeat=spec.heartbeat_seconds,
            max_parallel=spec.max_parallel,
        )


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
        raise ScenarioError(faults_text(faults_of(error, _keys(), "a scenario"), where)) from None


def _keys() -> Keys:
    deeper: dict[str, type[Section]] = {
        "pools.changes": ChangeSpec,
        "expect.why": WhySpec,
    }
    return {"": Scenario, **deeper, **SECTIONS}


COLUMNS = {
    "job": "name",
    "project": "project",
    "submit_s": "submit_at",
    "runtime_s": "runtime",
    "slots": "slots",
}
"""The job's key in a scenario, by column."""

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?")
_WHOLE = re.compile(r"\d{1,9}")
_COLUMN_OF = {key: column for column, key in COLUMNS.items()}


class Trace:
    """A parsed trace. Raises ScenarioError with the lines at fault."""

    def __init__(self, path: Path, *, projects: bool) -> None:
        """`projects`: whether the scenario has projects. If not, all jobs share one order, and the
        column is unused."""
        self.path = path
        self._lines: list[int] = []
        self.jobs: list[dict[str, Any]] = []
        """The jobs, as in a scenario's `jobs`."""
        faults: list[DocumentFault] = []
        for line, row in _rows(path):
            job = _job(row, line, faults)
            if not projects or not job["project"]:
                del job["project"]
            self.jobs.append(job)
            self._lines.append(line)
        if faults:
            raise ScenarioError(faults_text(faults, self._in_the_file))

    def place(self, number: int, loc: Loc) -> Place:
        """The place of a job's key in the file."""
        key = str(loc[0]) if loc else ""
        return self.path, self._lines[number], _COLUMN_OF.get(key, key)

    def _in_the_file(self, loc: Loc) -> Place:
        line, column = loc
        return self.path, int(line), str(column)


def _rows(path: Path) -> Iterator[tuple[int, Mapping[str, str]]]:
    reader = csv.reader(StringIO(read_text(path, ScenarioError), newline=""), strict=True)
    try:
        header = [name.strip() for name in next(reader, [])]
        if sorted(header) != sorted(COLUMNS):
            raise ScenarioError(
                f"{path}:1: the columns must be {','.join(COLUMNS)}, not "
                f"{','.join(header) or 'nothing'}"
            )
        for cells in reader:
            if len(cells) != len(header) and cells:
                raise ScenarioError(
                    f"{path}:{reader.line_num}: {len(cells)} columns, but the first line names "
                    f"{len(header)}"
                )
            if cells:
                yield reader.line_num, dict(zip(header, _stripped(cells), strict=True))
    except csv.Error as error:
        raise ScenarioError(f"{path}:{reader.line_num}: not CSV: {error}") from None


def _stripped(cells: Sequence[str]) -> list[str]:
    return [cell.strip() for cell in cells]


def _job(row: Mapping[str, str], line: int, faults: list[DocumentFault]) -> dict[str, Any]:
    """The row as a job. Adds a fault for each value that is no number."""
    job: dict[str, Any] = {COLUMNS[column]: text for column, text in row.items()}
    for column in ("submit_s", "runtime_s"):
        if _NUMBER.fullmatch(row[column]):
            job[COLUMNS[column]] = float(row[column])
        else:
            message = f"a number of seconds is needed, not {said(row[column])}"
            faults.append(DocumentFault((line, column), message))
    if _WHOLE.fullmatch(row["slots"]):
        job["slots"] = int(row["slots"])
    else:
        faults.append(
            DocumentFault((line, "slots"), f"a whole number is needed, not {said(row['slots'])}")
        )
    return job
