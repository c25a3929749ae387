"""The hosted workflow runs the steps of `.ci/run`, beside each other."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
JOBS = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())["jobs"]
SET_UP = yaml.safe_load((ROOT / ".github" / "actions" / "set-up" / "action.yml").read_text())


def of_the_local_run(name: str) -> list[str]:
    """An array of `.ci/run`, as bash reads it."""
    text = (ROOT / ".ci" / "run").read_text()
    (array,) = re.findall(rf"^{name}=\(.*?^\)$", text, re.MULTILINE | re.DOTALL)
    program = f'{array}\nprintf "%s\\n" "${{{name}[@]}}"'
    return subprocess.check_output(["bash", "-c", program], text=True).splitlines()


def test_each_step_of_the_local_run_is_a_job():
    assert JOBS["step"]["strategy"]["matrix"]["run"] == of_the_local_run("steps")


def test_each_job_sets_up_what_the_local_run_does():
    commands = [step["run"] for step in SET_UP["runs"]["steps"] if "run" in step]
    assert [line for line in commands if not line.startswith("find ")] == of_the_local_run("set_up")


def test_the_steps_have_the_same_variables():
    text = (ROOT / ".ci" / "run").read_text()
    exported = dict(re.findall(r"^export (SLOTQ_\w+)=(\S+)", text, re.MULTILINE))
    assert JOBS["step"]["env"] == exported


def test_the_last_job_waits_for_all_others():
    assert set(JOBS["all-of-it"]["needs"]) == set(JOBS) - {"all-of-it"}
