"""What stands for a job's image, and who gets SIGTERM there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import slotq_training
from slotq.local.container import image
from slotq.local.container.host_process import group_of, has_handler
from slotq.local.container.image import Image, NoPython


def python_in(folder: Path, train: str | None = None) -> str:
    for name, text in (("python", "#!/bin/sh\n"), ("train", train)):
        if text is not None:
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)
    return str(folder / "python")


def test_a_python_with_the_toolkit_runs_scripts_by_it(tmp_path: Path) -> None:
    python = python_in(tmp_path, "from sagemaker_training.cli.train import main\n")
    found = image.read(python, passes_sigterm=False)
    assert (found.python, found.toolkit) == (python, str(tmp_path / "train"))


@pytest.mark.parametrize("train", [None, "a train of somebody else's"])
def test_a_python_without_the_toolkit(tmp_path: Path, train: str | None) -> None:
    assert image.read(python_in(tmp_path, train), passes_sigterm=False).toolkit is None


def test_there_is_no_such_python(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "python"):
        with pytest.raises(NoPython, match=str(path)):
            image.read(str(path), passes_sigterm=False)


@pytest.mark.parametrize("passes", [True, False])
def test_a_job_may_say_otherwise(*, passes: bool) -> None:
    assert image.PASSES_SIGTERM == slotq_training.PASSES_SIGTERM
    made = Image(passes_sigterm=passes)
    assert made.passes_sigterm_to({}) is passes
    for said, reaches in (("1", True), ("0", False)):
        request = {"Environment": {"SLOTQ_PASSES_SIGTERM": said}}
        assert made.passes_sigterm_to(request) is reaches


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="it reads /proc")
def test_a_handler_is_seen() -> None:
    before = signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    try:
        assert not has_handler(os.getpid(), signal.SIGUSR2)
        signal.signal(signal.SIGUSR2, lambda *_: None)
        assert has_handler(os.getpid(), signal.SIGUSR2)
    finally:
        signal.signal(signal.SIGUSR2, before)


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="it reads /proc")
def test_a_group_without_its_leader() -> None:
    script = "import os, subprocess; print(subprocess.Popen(['sleep', '60']).pid, flush=True)"
    leader = subprocess.Popen(
        [sys.executable, "-c", f"{script}; os.wait()"],
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert leader.stdout is not None
    with leader.stdout:
        child = int(leader.stdout.readline())
        try:
            assert list(group_of(leader.pid)) == [child]
        finally:
            os.killpg(leader.pid, signal.SIGKILL)
            leader.wait()
