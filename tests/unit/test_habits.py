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


def test_the_devcontainer_is_valid():
    folder = ROOT / ".devcontainer"
    settings = json.loads((folder / "devcontainer.json").read_text())
    assert (folder / settings["build"]["dockerfile"]).exists()
