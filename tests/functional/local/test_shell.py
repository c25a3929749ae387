"""`slotq shell` in the emulator: beside the job's process, in its folder, with its /opt/ml."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.functional.local.account import Account
from tests.functional.local.conftest import SLOTQ

SOURCE = """
import time
open("mine.txt", "w").write("written by the job")
print("ready", flush=True)
time.sleep(90)
"""


def slotq(account: Account, *words: str, text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*SLOTQ, *words],
        input=text,
        env={**os.environ, **account.variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture(scope="module")
def job(emulator: Account) -> Iterator[str]:
    request = emulator.request("with-a-shell", SOURCE)
    assert slotq(emulator, "submit", "-", text=json.dumps(request)).returncode == 0
    emulator.wait_for_line("with-a-shell", "ready")
    yield "with-a-shell"
    slotq(emulator, "cancel", "with-a-shell")
    emulator.ended("with-a-shell")


def test_the_shell_sees_what_the_job_sees(account: Account, job: str) -> None:
    script = (
        'pwd; cat mine.txt; echo; echo "$TRAINING_JOB_NAME"; readlink /proc/self/ns/mnt; exit 5'
    )
    ran = slotq(account, "shell", job, text=script)
    assert ran.returncode == 5, ran.stderr
    lines = ran.stdout.splitlines()
    assert "written by the job" in ran.stdout
    assert job in lines
    if account.control("health")["isolated"]:
        assert lines[0].startswith("/opt/ml")
        assert lines[-1] != str(Path("/proc/self/ns/mnt").readlink())
    assert not ran.stderr


def test_a_job_without_a_shell_is_reported(account: Account, job: str) -> None:
    assert "no process algo-2" in slotq(account, "shell", job, "--host", "2").stderr
    ran = slotq(account, "shell", "nobody")
    assert (ran.returncode, "there is no job 'nobody'" in ran.stderr) == (1, True)
