"""A command that needs a missing extra says how to install it; everything else works."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from slotq import installation
from slotq.cli.exits import ExitCode
from slotq.cli.main import cli

RUN = "import sys; sys.modules[sys.argv.pop(1)] = None; from slotq.cli.main import main; main()"
CLONE = Path(__file__).parents[3]


def without(package: str, *words: str) -> subprocess.CompletedProcess[str]:
    """`slotq` without an installed package."""
    return subprocess.run(
        [sys.executable, "-c", RUN, package, *words], capture_output=True, text=True, check=False
    )


def suggested(message: str) -> list[str]:
    """What the command in a hint installs."""
    pip = shlex.join([sys.executable, "-m", "pip", "install", ""])[:-2]
    assert message.count(pip) == 1, message
    return shlex.split(message.partition(pip)[2])


@pytest.mark.parametrize(
    ("package", "words", "extras"),
    [
        ("moto", ("local", "start"), "local"),
        ("moto", ("local", "start", "--detach"), "local"),
        ("moto", ("local", "sam"), "local"),
        ("matplotlib", ("simulate", "s.yaml", "--plot", "s.png"), "plot"),
        ("matplotlib", ("simulate", "no-such-file.yaml", "--plot", "s.png"), "plot"),
        ("numpy", ("demo",), "local,sagemaker2"),
    ],
)
def test_a_command_says_how_to_install_what_it_needs(tmp_path, monkeypatch, package, words, extras):
    (tmp_path / "s.yaml").write_text(
        "pools: [{name: p, capacity: 1}]\njobs: [{name: a, submit_at: 0, runtime: 1}]\n"
    )
    monkeypatch.chdir(tmp_path)
    ran = without(package, *words)
    assert (ran.returncode, "Traceback" in ran.stderr) == (ExitCode.USAGE, False), ran.stderr
    assert suggested(ran.stderr)[-1] == f"{CLONE / 'client_sdk'}[{extras}]"
    assert package in ran.stderr
    assert ran.stdout == ""


def test_the_demo_names_all_that_is_missing_before_it_begins(monkeypatch):
    missing = {"moto", "aws-lambda-powertools", "sagemaker"}
    real = installation.installed
    monkeypatch.setattr(
        installation, "installed", lambda name: None if name in missing else real(name)
    )
    ran = CliRunner().invoke(cli, ["demo"])
    assert (ran.exit_code, ran.stdout) == (ExitCode.USAGE, "")
    named = re.search(r"missing here: (.*?)\. ", ran.stderr)
    assert named and set(named[1].split("; ")) == missing


def test_the_demo_says_that_it_needs_the_other_version_of_the_sdk(monkeypatch):
    real = installation.installed
    monkeypatch.setattr(
        installation, "installed", lambda name: "3.27.0" if name == "sagemaker" else real(name)
    )
    ran = CliRunner().invoke(cli, ["demo"])
    assert (ran.exit_code, ran.stdout) == (ExitCode.USAGE, "")
    assert "sagemaker <3,>=2.208, not 3.27.0" in ran.stderr
    assert "To keep sagemaker 3.27.0, use another environment" in ran.stderr


@pytest.mark.parametrize("words", [("--help",), ("local", "--help"), ("local", "env"), ("cost",)])
def test_other_commands_need_no_extra(tmp_path, monkeypatch, words):
    monkeypatch.setenv("SLOTQ_LOCAL_DIR", str(tmp_path))
    assert "pip install" not in without("moto", *words).stderr
