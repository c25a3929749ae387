"""Real trainings with torch on the emulator: two ranks, evicted three times by higher jobs.

torch has an environment of its own (`make test-torch`); without it the tests are skipped. Bits are
compared within that environment only.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from slotq import QueueClient
from tests.functional.local.account import Account
from tests.functional.local.conftest import slotq, start

ROOT = Path(__file__).parents[3]
PYTHON = Path(os.environ.get("SLOTQ_TORCH_PYTHON", ROOT / ".venv" / "torch" / "bin" / "python"))
TRAINING = ROOT / "client_sdk" / "training" / "slotq_training.py"
pytestmark = pytest.mark.skipif(not PYTHON.exists(), reason="no torch: make test-torch")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    folder = tmp_path_factory.mktemp("torch")
    account = start(folder, "--pool", "main=2", "--tick", "1", "--python", str(PYTHON))
    yield account
    log = (folder / "emulator.log").read_text()
    slotq("local", "stop", folder=folder)
    assert "Traceback" not in log, log


@pytest.fixture
def queue(runs: Account, monkeypatch: pytest.MonkeyPatch) -> QueueClient:
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    for name in [name for name in os.environ if name.startswith(("AWS_", "SLOTQ_"))]:
        monkeypatch.delenv(name)
    for name, value in runs.variables.items():
        monkeypatch.setenv(name, value)
    return QueueClient()


BEGINS = """
import hashlib, json, os, pathlib, sys, time
import torch
import torch.distributed as dist
import slotq_training as slotq

env = slotq.distributed_env()
rank, world = int(env["RANK"]), int(env["WORLD_SIZE"])
address = "tcp://{MASTER_ADDR}:{MASTER_PORT}".format(**env)
dist.init_process_group("gloo", init_method=address, rank=rank, world_size=world)
torch.set_num_threads(1)
torch.manual_seed(3)
data = torch.utils.data.TensorDataset(torch.randn(1600, 16), torch.randn(1600, 1))
net = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Dropout(0.2), torch.nn.Linear(64, 1))
model = torch.nn.parallel.DistributedDataParallel(net)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
interrupted = "--interrupted" in sys.argv

def train(x, y):
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()

def pause(begin, step):
    # An attempt that is to be evicted is quick at first, and then has time.
    if interrupted and slotq.attempt() < 4:
        time.sleep(0.02 if step < begin + 6 else 1.0)
    print("step", step, flush=True)
"""
ENDS = """
digest = hashlib.sha256()
for name, value in sorted(model.state_dict().items()):
    digest.update(value.numpy().tobytes())
print("weights", digest.hexdigest(), flush=True)
"""
SUSPENDABLE = (
    BEGINS
    + """
sampler = torch.utils.data.distributed.DistributedSampler(data)
loader = torch.utils.data.DataLoader(data, batch_size=4, sampler=sampler)
torch.manual_seed(rank)
ckpt = slotq.checkpoint.manager(model, optimizer, every_epoch=False)
print("begins", ckpt.start_step, flush=True)
step = ckpt.start_step
for epoch in ckpt.epochs(1):
    for x, y in ckpt.batches(loader):
        train(x, y)
        step += 1
        pause(ckpt.start_step, step)
"""
    + ENDS
)
IGNORES = (
    BEGINS
    + """
file = pathlib.Path(slotq.checkpoint_dir(), "state.pt")
begin = 0
if file.exists():
    state = torch.load(file)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    begin = state["step"]
print("begins", begin, flush=True)
for step in range(begin, 200):
    torch.manual_seed(1000 * rank + step)
    train(*data[torch.randint(1600, (4,))])
    if (step + 1) % 5 == 0:
        if rank == 0:
            new = file.with_suffix(".new")
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save({**state, "step": step + 1}, new)
            new.replace(file)
        print("saved", step + 1, flush=True)
    pause(begin, step + 1)
"""
    + ENDS
)


def numbers(account: Account, training_job: str, word: str) -> list[int]:
    return [int(line.split()[1]) for line in account.said(training_job) if line.startswith(word)]


def weights(account: Account, training_job: str) -> list[str]:
    """What each rank has in the end."""
    lines = [account.said(training_job, host)[-1] for host in ("algo-1", "algo-2")]
    assert all(line.startswith("weights") for line in lines), lines
    return lines


def submit(
    account: Account, queue: QueueClient, name: str, script: str, *, interrupted: bool, heard: bool
) -> None:
    files = {"train.py": script, "slotq_training.py": TRAINING.read_text()}
    queue.submit(
        account.request(
            name,
            instances=2,
            parameters={
                "sagemaker_program": "train.py",
                "sagemaker_submit_directory": account.upload_source(f"{name}-files", files),
                **({"interrupted": 1} if interrupted else {}),
            },
            CheckpointConfig={"S3Uri": f"s3://{account.bucket}/checkpoints/{name}"},
            Environment={"OMP_NUM_THREADS": "1", "SLOTQ_PASSES_SIGTERM": "1" if heard else "0"},
            StoppingCondition={"MaxRuntimeInSeconds": 600},
        )
    )


def patiently(account: Account, condition: Callable[[], Any], what: str) -> Any:
    """Wait longer than other tests do: torch alone needs seconds to start on a busy machine."""
    for _ in range(4):
        with contextlib.suppress(AssertionError):
            return account.until(condition, what)
    return account.until(condition, what)


def ended(account: Account, queue: QueueClient, name: str) -> str:
    """Wait until a job completes. Returns its last training job."""
    patiently(
        account, lambda: queue.jobs.view(name).state in {"completed", "failed"}, f"end of {name}"
    )
    job = queue.jobs.view(name)
    assert job.state == "completed", (job, account.said(job.training_job or name))
    assert job.training_job is not None
    return job.training_job


def evicted(account: Account, queue: QueueClient, name: str, attempt: int) -> str:
    """Have the attempt evicted once it has begun to train. Returns its training job."""

    def trains() -> str | None:
        job = queue.jobs.view(name)
        begun = job.attempts_begun == attempt and job.training_job is not None
        steps = numbers(account, job.training_job or "", "step") if begun else []
        return job.training_job if len(steps) >= 6 else None

    training_job = str(patiently(account, trains, f"attempt {attempt} of {name}"))
    urgent = account.request(f"{name}-urgent-{attempt}", "pass", instances=2)
    queue.submit(urgent | {"Tags": [{"Key": "priority", "Value": "5"}]})
    ended(account, queue, f"{name}-urgent-{attempt}")
    return training_job


@pytest.mark.parametrize("heard", [True, False], ids=["suspends", "ignores"])
def test_a_training_evicted_three_times_ends_with_the_same_weights(
    runs: Account, queue: QueueClient, *, heard: bool
) -> None:
    script, name = (SUSPENDABLE, "hears") if heard else (IGNORES, "ignores")
    submit(runs, queue, f"{name}-whole", script, interrupted=False, heard=heard)
    whole = weights(runs, ended(runs, queue, f"{name}-whole"))
    assert len(set(whole)) == 1, "the two ranks have the same weights"
    # A script that hears of the stop saves within the grace; one that does not is killed after it.
    runs.knobs({"grace_seconds": 8 if heard else 1})
    submit(runs, queue, name, script, interrupted=True, heard=heard)
    attempts = [evicted(runs, queue, name, attempt) for attempt in (1, 2, 3)]
    attempts.append(ended(runs, queue, name))
    begins = [numbers(runs, attempt, "begins")[0] for attempt in attempts]
    for before, begin in zip(attempts, begins[1:], strict=False):
        kept = "step" if heard else "saved"
        assert begin == max(numbers(runs, before, kept)), (begins, runs.said(before))
        assert runs.describe(before)["TrainingJobStatus"] == "Stopped"
    assert begins == sorted(set(begins)), "each goes on further than the one before"
    assert weights(runs, attempts[-1]) == whole
    assert queue.jobs.view(name).evictions == 3


def documented_line() -> str:
    """The two-instance torchrun of docs/suspendable.md, with one process on each node."""
    page = (ROOT / "docs" / "suspendable.md").read_text()
    found = re.search(r"--instance-count 2 -- sh -c '(exec torchrun .*)'", page)
    assert found is not None
    return found[1].replace("--nproc-per-node 8", "--nproc-per-node 1")


SUMS = """
import os
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
total = torch.tensor([10.0 ** dist.get_rank()])
dist.all_reduce(total)
print("sum", int(total), "of", dist.get_world_size(), flush=True)
"""


def test_the_documented_torchrun_line_is_one_training(
    runs: Account, queue: QueueClient, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(SUMS)
    settings = ["--image", "none", "--role", "arn:aws:iam::123456789012:role/trainer"]
    settings += ["--output", f"s3://{runs.bucket}/runs", "--source", str(tmp_path)]
    for name in ("sums-1", "sums-2"):  # At once one after the other: each has ports of its own.
        sent = ["submit", "--name", name, "--instance-count", "2", *settings]
        slotq(*sent, "--", "sh", "-c", documented_line(), folder=runs.folder, env=dict(os.environ))
    for name in ("sums-1", "sums-2"):
        training_job = ended(runs, queue, name)
        assert [runs.said(training_job, host)[-1] for host in ("algo-1", "algo-2")] == [
            "sum 11 of 2",
            "sum 11 of 2",
        ]
