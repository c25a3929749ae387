"""The hosted workflow runs the steps of `.ci/run`, beside each other."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
RUN = (ROOT / ".ci" / "run").read_text()
WORKFLOW = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
STEPS = WORKFLOW["jobs"]["step"]["strategy"]["matrix"]["include"]
STEP = re.compile(r"\bmake ([a-z][\w-]*)|\.ci/(sam-local)")


def steps(text: str) -> set[str]:
    commands = re.sub(r"(^|\s)#.*", "", text, flags=re.MULTILINE)
    return {target or script for target, script in STEP.findall(commands)}


def test_each_step_of_the_local_run_is_a_job():
    assert steps(RUN) - {"install"} == steps("\n".join(job["run"] for job in STEPS))


def test_the_last_job_waits_for_all_others():
    others = set(WORKFLOW["jobs"]) - {"all-of-it"}
    assert set(WORKFLOW["jobs"]["all-of-it"]["needs"]) == others
