"""A trace: a table of jobs, one per line, for a scenario that gives the world.

The columns are `job,project,submit_s,runtime_s,slots`, in any order. The first line names them.

See docs/simulate.md#--trace.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

from slotq.document.yaml_file import Place, read_text, told
from slotq.errors import ScenarioError
from slotq_core.wire.document.faults import Fault, Loc, said

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
        faults: list[Fault] = []
        for line, row in _rows(path):
            job = _job(row, line, faults)
            if not projects or not job["project"]:
                del job["project"]
            self.jobs.append(job)
            self._lines.append(line)
        if faults:
            raise ScenarioError(told(faults, self._in_the_file))

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


def _job(row: Mapping[str, str], line: int, faults: list[Fault]) -> dict[str, Any]:
    """The row as a job. Adds a fault for each value that is no number."""
    job: dict[str, Any] = {COLUMNS[column]: text for column, text in row.items()}
    for column in ("submit_s", "runtime_s"):
        if _NUMBER.fullmatch(row[column]):
            job[COLUMNS[column]] = float(row[column])
        else:
            message = f"a number of seconds is needed, not {said(row[column])}"
            faults.append(Fault((line, column), message))
    if _WHOLE.fullmatch(row["slots"]):
        job["slots"] = int(row["slots"])
    else:
        faults.append(Fault((line, "slots"), f"a whole number is needed, not {said(row['slots'])}"))
    return job
