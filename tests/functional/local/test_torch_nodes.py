"""Real trainings with torch on nodes of the emulator: two on one node, one of them evicted.

torch has an environment of its own (`make test-torch`); without it the test is skipped. Bits are
compared within that environment only.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slotq import QueueClient
from slotq.demo.environment import with_variables
from slotq.demo.world import settings
from tests import emulators
from tests.functional.local.account import Account
from tests.functional.local.node_process import PACKAGES
from tests.functional.local.test_torch import PYTHON, TRAINING, ended, numbers, patiently

P5 = "ml.p5.48xlarge"
pytestmark = pytest.mark.skipif(not PYTHON.exists(), reason="no torch: make test-torch")


@pytest.fixture
def aws(tmp_path: Path) -> Iterator[Account]:
    """A pool that keeps two instances of eight GPUs that are not there."""
    python = tmp_path / "python"
    subprocess.run([PYTHON, "-m", "venv", "--without-pip", str(python)], check=True)
    (packages,) = python.glob("lib/python3*/site-packages")
    (torch,) = PYTHON.parents[1].glob("lib/python3*/site-packages")
    (packages / "tests.pth").write_text(f"{torch}\n{PACKAGES}\n")
    for path in (tmp_path, *tmp_path.parents[:2]):
        path.chmod(0o755)  # Jobs' users run the Python below.
    pool = ("--pool", f"main=2@{P5};nodes=keep:600")
    options = ("--gpus", "8", "--tick", "1", "--python", str(python / "bin/python3"))
    folder = tmp_path / "state"
    with emulators.held(folder, *pool, *options) as account:
        variables = settings(account.endpoint, folder)
        with with_variables(variables, instead_of=("AWS_", "SLOTQ_")):
            yield account
    log = (folder / "emulator.log").read_text()
    assert "Traceback" not in log, log


TRAINS = """
import hashlib, os, sys, time
import torch
import slotq_training as slotq

options = dict(zip(sys.argv[1::2], sys.argv[2::2]))
torch.set_num_threads(1)
torch.manual_seed(int(options["--seed"]))
data = torch.utils.data.TensorDataset(torch.randn(800, 16), torch.randn(800, 1))
model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Dropout(0.2), torch.nn.Linear(64, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
loader = torch.utils.data.DataLoader(data, batch_size=4, shuffle=True)
ckpt = slotq.checkpoint.manager(model, optimizer, every_epoch=False)
print("begins", ckpt.start_step, flush=True)
step = ckpt.start_step
for epoch in ckpt.epochs(1):
    for x, y in ckpt.batches(loader):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
        step += 1
        print("step", step, flush=True)
        # Slow until the eviction is over, which the file says.
        for _ in range(20 * (step > 5 and not os.path.exists(options["--until"]))):
            time.sleep(0.05)
digest = hashlib.sha256()
for name, value in sorted(model.state_dict().items()):
    digest.update(value.numpy().tobytes())
print("weights", digest.hexdigest(), flush=True)
"""
HOLDS = "import time; print('holds', flush=True); time.sleep(1000)"


def submit(
    account: Account, name: str, *, gpus: int, priority: int, source: str = "", **more: Any
) -> None:
    """A job in the pool with nodes: the training, or a script that is given."""
    parameters = more
    if not source:
        files = {"train.py": TRAINS, "slotq_training.py": TRAINING.read_text()}
        parameters = {
            "sagemaker_program": "train.py",
            "sagemaker_submit_directory": account.upload_source(f"{name}-files", files),
            **more,
        }
    asked = account.request(name, source, parameters=parameters)
    asked["CheckpointConfig"] = {"S3Uri": f"s3://{account.bucket}/checkpoints/{name}"}
    asked["StoppingCondition"] = {"MaxRuntimeInSeconds": 3600}
    asked["ResourceConfig"]["InstanceType"] = P5
    tags = {"slotq:gpus": str(gpus), "slotq:pools": "main", "priority": str(priority)}
    asked["Tags"] = [{"Key": key, "Value": value} for key, value in tags.items()]
    QueueClient().submit(asked)


def weights(account: Account, training_job: str) -> str:
    """What a training has in the end, as its last line says."""
    line = account.said(training_job)[-1]
    assert line.startswith("weights "), account.said(training_job)
    return line


@pytest.mark.timeout(900)
def test_two_trainings_on_a_node_one_evicted_to_another_end_with_the_same_weights(
    aws: Account, tmp_path: Path
) -> None:
    queue = QueueClient()
    whole = {}
    for seed in (3, 4):
        submit(aws, f"whole-{seed}", gpus=4, priority=0, seed=seed, until="/")
        whole[seed] = weights(aws, ended(aws, queue, f"whole-{seed}"))
    assert whole[3] != whole[4]

    over = tmp_path / "over"
    for seed in (3, 4):
        submit(aws, f"train-{seed}", gpus=4, priority=0, seed=seed, until=str(over))
        begun = lambda seed=seed: len(numbers(aws, f"train-{seed}", "step")) >= 6  # noqa: E731
        patiently(aws, begun, f"steps of train-{seed}")
    first, other = (queue.jobs.view(f"train-{seed}").node for seed in (3, 4))
    assert first is not None
    assert first == other, "two trainings share the node"
    submit(aws, "filler", gpus=8, priority=9, source=HOLDS)
    patiently(aws, lambda: aws.said("filler") == ["holds"], "the other node's job")
    submit(aws, "urgent", gpus=4, priority=5, source=HOLDS)
    patiently(aws, lambda: aws.said("urgent") == ["holds"], "the higher job")
    assert queue.jobs.view("urgent").node == first
    views = {seed: queue.jobs.view(f"train-{seed}") for seed in (3, 4)}
    (evicted,) = [seed for seed, job in views.items() if job.state != "running"]
    queue.jobs.cancel("filler")

    def resumed() -> str | None:
        job = queue.jobs.view(f"train-{evicted}")
        return job.node if job.attempts_begun == 2 and job.state == "running" else None

    assert patiently(aws, resumed, "the second attempt") not in {None, first}
    over.touch()
    last = {seed: ended(aws, queue, f"train-{seed}") for seed in (3, 4)}
    assert {seed: weights(aws, name) for seed, name in last.items()} == whole
    before, after = (numbers(aws, name, "step") for name in (f"train-{evicted}", last[evicted]))
    assert numbers(aws, last[evicted], "begins") == [before[-1]], (before, after)
    assert (before[0], after[0], after[-1]) == (1, before[-1] + 1, 200)
    stayed = queue.jobs.view(f"train-{7 - evicted}")
    assert (stayed.attempts_begun, stayed.evictions) == (1, 0)
