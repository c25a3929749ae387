"""docs/elastic-scripts.md, with torch: members of two processes under torchrun, in one process group.

torch has an environment of its own (`make test-torch`); without it the test is skipped.
"""

from __future__ import annotations

import json
import socket

import pytest

from tests.functional.training.breathing import PACE, TORCH, breathe
from tests.functional.training.processes import Container
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
if world.local_rank == 0:
    import json
    print(json.dumps([parameter.flatten().tolist() for parameter in model.parameters()]), flush=True)
"""


def whole(tmp_path) -> list[list[float]]:
    """The weights of a run in one process, without any group."""
    script = (
        TORCH.partition("def train(world):")[0]
        + """
while step < STEPS:
    optimizer.zero_grad()
    (torch.square(model(data) - wanted).sum() / BATCH).backward()
    optimizer.step()
    step += 1
import json
print(json.dumps([parameter.flatten().tolist() for parameter in model.parameters()]), flush=True)
"""
    )
    container = Container(tmp_path / "whole")
    process = container.start(script, python=PYTHON, OMP_NUM_THREADS="1")
    out, errors = process.communicate()
    assert process.returncode == 0, errors
    weights: list[list[float]] = json.loads(out)
    return weights


@pytest.mark.timeout(600)
def test_members_under_torchrun_end_with_the_weights_of_one_process(tmp_path, gang):
    work = "        optimizer.zero_grad()\n        (torch"
    assert work in TORCH
    with_pace = "import time\n" + TORCH.replace(work, f"        {PACE}\n{work}")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    script = with_pace.replace("slotq.world(2222,", f"slotq.world({port},") + SAYS
    for number in (1, 2, 3, 4):
        code = tmp_path / f"ring-{number}" / "algo-1" / "ml" / "code"
        code.mkdir(parents=True)
        (code / "worker.py").write_text(script)
    last = breathe(gang(TORCHRUN, OMP_NUM_THREADS="1"), processes=PROCESSES)
    expected = whole(tmp_path)
    for line in last:
        for weights, right in zip(json.loads(line), expected, strict=True):
            assert weights == pytest.approx(right, abs=1e-5)
