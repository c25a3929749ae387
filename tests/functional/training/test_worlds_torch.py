"""docs/elastic-scripts.md, with torch: members of two processes under torchrun, one process group.

torch has an environment of its own (`make test-torch`); without it the test is skipped.
"""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from tests.functional.training.breathing import PACE, QUICK, TORCH, breathe
from tests.functional.training.processes import Container, until
from tests.functional.training.test_torch import PYTHON

pytestmark = pytest.mark.skipif(not PYTHON.exists(), reason="no torch: make test-torch")

PROCESSES = 2
TORCHRUN = f"""
import os

here = os.path.dirname(os.path.abspath(__file__))
run = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "{PROCESSES}"]
os.execv("{PYTHON}", ["{PYTHON}", *run, os.path.join(here, "worker.py")])
"""
SAYS = """
import json
print(json.dumps([each.flatten().tolist() for each in model.parameters()]), flush=True)
"""
ALONE = """
while step < STEPS:
    optimizer.zero_grad()
    (torch.square(model(data) - wanted).sum() / BATCH).backward()
    optimizer.step()
    step += 1
"""


def script(more: str = "") -> str:
    """The page's script, slow until the story is over, at a port of its own."""
    work = "        optimizer.zero_grad()\n        (torch"
    assert work in TORCH
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    paced = TORCH.replace(work, f"        {PACE}\n{work}")
    return (
        "import time\n" + paced.replace("slotq.world(2222,", f"slotq.world({port},") + more + SAYS
    )


def are_those_of_one_process(tmp_path: Path, lines: list[str]) -> None:
    """The weights of all members are those of a run in one process, without any group."""
    container = Container(tmp_path / "whole")
    whole = TORCH.partition("def train(world):")[0] + ALONE + SAYS
    process = container.start(whole, python=PYTHON, OMP_NUM_THREADS="1")
    out, errors = process.communicate()
    assert process.returncode == 0, errors
    for line in lines:
        for weights, right in zip(json.loads(line), json.loads(out), strict=True):
            assert weights == pytest.approx(right, abs=1e-5)


@pytest.mark.timeout(600)
def test_members_under_torchrun_end_with_the_weights_of_one_process(tmp_path, gang):
    worker = script("if world.local_rank:\n    raise SystemExit(0)\n")
    for number in (1, 2, 3, 4):
        code = tmp_path / f"ring-{number}" / "algo-1" / "ml" / "code"
        code.mkdir(parents=True)
        (code / "worker.py").write_text(worker)
    last = breathe(gang(TORCHRUN, OMP_NUM_THREADS="1"), processes=PROCESSES)
    are_those_of_one_process(tmp_path, last)


@pytest.mark.timeout(600)
def test_the_others_go_on_when_a_member_is_killed(tmp_path, gang):
    made = gang(QUICK + script(), OMP_NUM_THREADS="1", python=PYTHON)
    members = [made.member(number).start(size=3) for number in (1, 2, 3)]
    for member in members:
        assert member.meets(3) == 1
    until(lambda: members[0].container.report.get("step", 0) > 1, "they train")
    members.pop(0).process.kill()
    for member in members:
        assert member.meets(2) > 1
    made.enough.touch()
    are_those_of_one_process(tmp_path, [member.ends() for member in members])
