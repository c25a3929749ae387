"""Contributors' checks are those of CI."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]


def test_pre_commit_runs_what_make_check_runs():
    recipe = re.search(r"^check:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert recipe is not None
    checks = [line.strip().replace("$(BIN)", ".venv/bin") for line in recipe[1].splitlines()]
    (local,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    before_a_commit = [hook for hook in local["hooks"] if "stages" not in hook]
    assert [hook["entry"] for hook in before_a_commit] == checks


def test_a_hook_refuses_a_long_first_line(tmp_path):
    (local,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    (hook,) = [hook for hook in local["hooks"] if hook.get("stages") == ["commit-msg"]]
    message = tmp_path / "message"
    for first, code in (("x" * 72, 0), ("x" * 73, 1)):
        message.write_text(f"{first}\n\n{'y' * 100}\n")
        run = subprocess.run([*shlex.split(hook["entry"]), message], check=False)
        assert run.returncode == code


def test_the_hosted_ci_runs_every_step_of_the_repositorys_ci():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    hosted = str([job for job in workflow["jobs"].values() if "steps" in job])
    action = (ROOT / ".github" / "actions" / "set-up" / "action.yml").read_text()
    steps = _steps((ROOT / ".ci" / "run").read_text())
    assert {"make test", "make journeys", ".ci/sam-local"} <= steps
    assert _steps(hosted) | _steps(action) == steps
    assert workflow["jobs"]["all-of-it"]["needs"] == ["install", "step"]


def _steps(text: str) -> set[str]:
    code = re.sub(r"(?m)#.*$", "", text).replace("make sam-local", ".ci/sam-local")
    return {*re.findall(r"make [a-z][a-z0-9-]+|\.ci/sam-local", code)}


def test_the_devcontainer_is_valid():
    folder = ROOT / ".devcontainer"
    settings = json.loads((folder / "devcontainer.json").read_text())
    assert (folder / settings["build"]["dockerfile"]).exists()
