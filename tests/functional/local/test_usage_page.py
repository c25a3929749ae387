"""docs/usage.md on the emulator: its commands, its file of prices, its Python."""

from __future__ import annotations

import csv
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.functional.local.account import Account
from tests.functional.local.conftest import slotq
from tests.functional.local.test_queue import (  # noqa: F401
    BRIEF,
    SLEEPS,
    queue,
    submit,
    wait_for,
)

PAGE = Path(__file__).parents[3] / "docs" / "usage.md"
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
COMMANDS = [line for kind, text in BLOCKS if kind == "sh" for line in text.splitlines()]
(PRICES,) = [text for kind, text in BLOCKS if kind == "text"]
SCARCE = {"InstanceType": "ml.g5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 1}
(PYTHON,) = [text for kind, text in BLOCKS if kind == "python"]


@pytest.fixture
def used(queue: Account, tmp_path: Path) -> dict[str, str]:  # noqa: F811
    """The variables of somebody of whose two jobs one has evicted the other."""
    submit(queue, "evicted", SLEEPS, priority=1, ResourceConfig=SCARCE)
    wait_for(queue, evicted="running")
    submit(queue, "urgent", BRIEF, priority=2, ResourceConfig=SCARCE)
    wait_for(queue, urgent="completed")
    (tmp_path / "contract.toml").write_text(PRICES)
    return {**queue.variables, "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}


def test_the_commands_and_the_python_of_the_page_work(
    account: Account, used: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert len(COMMANDS) > 5
    for line in COMMANDS:
        words = shlex.split(line.partition(">")[0])[1:]
        said = slotq(*words, folder=account.folder, env=used).stdout
        if "--csv" in words:
            head, *_ = csv.reader(said.splitlines())
            assert head[:2] == ["project", "submitter"]
        elif "--json" in words:
            total = json.loads(said)["total"]
            assert min(total["evictions_given"], total["evictions_taken"]) >= 1
            assert 0 < total["lost_hours"] <= total["slot_hours"]
            assert total["instance_hours"] <= total["slot_hours"]
        elif words[0] == "usage":
            assert "SLOT-H" in said.splitlines()[0]
    ran = subprocess.run(
        [sys.executable, "-c", PYTHON],
        env={**os.environ, **used},
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    assert "ml.g5.xlarge" in ran.stdout
