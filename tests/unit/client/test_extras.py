"""A command that needs a missing extra names it; everything else works."""

from __future__ import annotations

import subprocess
import sys

import pytest

from slotq.cli.exits import Exit

RUN = "import sys; sys.modules[sys.argv.pop(1)] = None; from slotq.cli.main import main; main()"


def without(package: str, *words: str) -> subprocess.CompletedProcess[str]:
    """`slotq` without an installed package."""
    return subprocess.run(
        [sys.executable, "-c", RUN, package, *words], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("package", "words", "extra"),
    [
        ("moto", ("local", "start"), "slotq[local]"),
        ("moto", ("local", "start", "--detach"), "slotq[local]"),
        ("matplotlib", ("simulate", "s.yaml", "--plot", "s.png"), "slotq[plot]"),
        ("numpy", ("demo",), "slotq[local,sagemaker2]"),
    ],
)
def test_a_command_names_the_extra_it_needs(tmp_path, monkeypatch, package, words, extra):
    (tmp_path / "s.yaml").write_text(
        "pools: [{name: p, capacity: 1}]\njobs: [{name: a, submit_at: 0, runtime: 1}]\n"
    )
    monkeypatch.chdir(tmp_path)
    ran = without(package, *words)
    assert (ran.returncode, "Traceback" in ran.stderr) == (Exit.USAGE, False), ran.stderr
    assert f"pip install '{extra}'" in ran.stderr
    assert package in ran.stderr


@pytest.mark.parametrize("words", [("--help",), ("local", "--help"), ("local", "env"), ("cost",)])
def test_other_commands_need_no_extra(tmp_path, monkeypatch, words):
    monkeypatch.setenv("SLOTQ_LOCAL_DIR", str(tmp_path))
    assert "pip install" not in without("moto", *words).stderr
