"""Airflow on this machine: a DAG with one task, run by `airflow dags test`."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slotq.local.endpoint import Endpoint
from slotq.transport.network import RELAYED
from tests.e2e.waiting import PATIENCE

ROOT = Path(__file__).parents[2]
ENVIRONMENTS = ROOT / ".cache" / "ecosystem"
DAYS = "2026-01-{:02d}"
_OURS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "SLOTQ_")
_LINE = re.compile(
    r"\] (?P<new>(?:step|goes on from step) \d+) +\[airflow\.task\."
    r"|^\[[-\d]+T.* INFO - (?P<old>(?:step|goes on from step) \d+)$",
    re.MULTILINE,
)
"""A line of the job in what Airflow 3 prints, and in what Airflow 2 prints for a task's own log."""


def python(environment: str) -> Path:
    return ENVIRONMENTS / environment / "bin" / "python"


@dataclass(frozen=True, kw_only=True)
class Ran:
    """How a run of the DAG ended. `result`: what the task returned; None: it has not succeeded."""

    printed: str
    result: Any

    @property
    def lines(self) -> list[str]:
        """The lines of the job in the task's log."""
        return [found["new"] or found["old"] for found in _LINE.finditer(self.printed)]


class Airflow:
    """An Airflow with a database of its own. Its connection `queue` has the credentials and the
    endpoint; its environment has neither, but for what `with_credentials` gives."""

    def __init__(self, environment: str, folder: Path, aws: Endpoint) -> None:
        self.name = environment
        self._bin = ENVIRONMENTS / environment / "bin"
        self._result, self._aws = folder / "result.json", aws
        extra = {
            "region_name": aws.region,
            "service_config": {"slotq": {"endpoint_url": aws.queue}},
        }
        connection = {
            "conn_type": "aws",
            "login": aws.keys.access_key,
            "password": aws.keys.secret_key,
            "extra": extra,
        }
        self.variables = {
            **{key: value for key, value in os.environ.items() if not key.startswith(_OURS)},
            "AIRFLOW_HOME": str(folder),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__DAGS_FOLDER": str(Path(__file__).parent / "dags"),
            "AIRFLOW_CONN_QUEUE": json.dumps(connection),
            "ECOSYSTEM_RESULT": str(self._result),
        }
        self.run("db", "migrate")
        self._days = iter(range(1, 32))

    def run(self, *words: str, **variables: str) -> str:
        done = subprocess.run(
            [self._bin / "airflow", *words],
            env={**self.variables, **variables}, check=False, timeout=PATIENCE,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout
        return done.stdout

    def day(self) -> str:
        """A date that no run has had."""
        return DAYS.format(next(self._days))

    def begin(
        self,
        operator: str,
        *,
        day: str = "",
        under: Sequence[str] = (),
        with_credentials: bool = False,
        variables: Mapping[str, str] | None = None,
        **arguments: Any,
    ) -> subprocess.Popen[str]:
        """Begin a run of the DAG with this task. `under`: a command that runs Airflow; `variables`:
        of its environment."""
        self._result.unlink(missing_ok=True)
        own = os.environ if with_credentials else {}
        return subprocess.Popen(
            [*under, self._bin / "airflow", "dags", "test", "train", day or self.day()],
            env={
                **own,
                **self.variables,
                **{key: (variables or {})[key] for key in RELAYED if variables},
                "ECOSYSTEM_TASK": json.dumps({"operator": operator, "arguments": arguments}),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def ended(self, process: subprocess.Popen[str]) -> Ran:
        """Wait for the end of a run."""
        printed, _ = process.communicate(timeout=PATIENCE)
        there = self._result.exists()
        return Ran(printed=printed, result=json.loads(self._result.read_text()) if there else None)

    def test(self, operator: str, **how: Any) -> Ran:
        return self.ended(self.begin(operator, **how))

    def begin_script(self, name: str, *words: str) -> subprocess.Popen[str]:
        """Begin a script of this folder in Airflow's environment."""
        return subprocess.Popen(
            [self._bin / "python", Path(__file__).parent / name, *words],
            env=self.variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def returned(self, process: subprocess.Popen[str]) -> Any:
        """What the script returned."""
        printed, _ = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, printed
        return json.loads(printed.rpartition("RETURNED ")[2])

    def script(self, name: str, *words: str) -> Any:
        return self.returned(self.begin_script(name, *words))


SLOTQ_EXEC = (sys.executable, "-m", "slotq", "exec", "--")
