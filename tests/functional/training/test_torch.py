"""Real trainings with torch on the CPU: suspended ones end with the weights of uninterrupted ones.

torch has an environment of its own (`make test-torch`); without it the tests are skipped. Bits are
compared within that environment only.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.functional.training.processes import PATIENCE, ROOT, Container

PYTHON = Path(os.environ.get("SLOTQ_TORCH_PYTHON", ROOT / ".venv" / "torch" / "bin" / "python"))
pytestmark = pytest.mark.skipif(not PYTHON.exists(), reason="no torch: make test-torch")

SCRIPT = """
import os, sys, time, hashlib
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler
from slotq_training import checkpoint

kind, pause = sys.argv[1], float(sys.argv[2])
torch.set_num_threads(1)
torch.manual_seed(3)
data = TensorDataset(torch.randn(96, 16), torch.randn(96, 1))
net = torch.nn.Sequential(
    torch.nn.Linear(16, 2048), torch.nn.BatchNorm1d(2048), torch.nn.Dropout(0.2),
    torch.nn.Linear(2048, 1),
)
model, sampler = net, None
if kind != "plain":
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    sampler = DistributedSampler(data)
if kind == "ddp":
    model = torch.nn.parallel.DistributedDataParallel(net)
elif kind == "fsdp2":
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    net = torch.nn.Sequential(*(net[n] for n in (0, 2, 3)))
    fully_shard(net, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
    model = net
elif kind == "fsdp1":
    from torch.distributed.fsdp import FullyShardedDataParallel
    net = torch.nn.Sequential(*(net[n] for n in (0, 2, 3)))
    model = FullyShardedDataParallel(net, device_id=torch.device("cpu"))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
loader = DataLoader(data, batch_size=8, shuffle=sampler is None, sampler=sampler)
ckpt = checkpoint.manager(model, optimizer, scheduler=scheduler, parallel_above=1)
print("from", ckpt.start_epoch, ckpt.start_step, flush=True)
for epoch in ckpt.epochs(3):
    for x, y in ckpt.batches(loader):
        time.sleep(pause)
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
    scheduler.step()
digest = hashlib.sha256()
for name, value in sorted(model.state_dict().items()):
    value = value.full_tensor() if hasattr(value, "full_tensor") else value
    digest.update(value.detach().cpu().contiguous().numpy().tobytes())
print("weights", digest.hexdigest(), flush=True)
"""


def start(container, kind, pause, world, port):
    return [
        container.start(
            SCRIPT,
            kind,
            str(pause),
            python=PYTHON,
            OMP_NUM_THREADS="1",
            **(
                {}
                if kind == "plain"
                else {
                    "RANK": str(rank),
                    "LOCAL_RANK": str(rank),
                    "WORLD_SIZE": str(world),
                    "MASTER_ADDR": "127.0.0.1",
                    "MASTER_PORT": str(port),
                }
            ),
        )
        for rank in range(world)
    ]


def ended(processes):
    said = [process.communicate(timeout=PATIENCE) for process in processes]
    for process, (_, err) in zip(processes, said, strict=True):
        assert process.returncode in {0, 75}, err
    return [line for out, _ in said for line in out.splitlines() if line.startswith("weights")]


@pytest.mark.parametrize("kind", ["plain", "ddp", "fsdp2", "fsdp1"])
def test_a_training_suspended_three_times_ends_with_the_same_weights(tmp_path, kind):
    world, port = (1 if kind == "plain" else 2), 23510 + len(kind) * 7 + ord(kind[-1]) % 7
    whole = ended(start(Container(tmp_path / "whole"), kind, 0, world, port))
    begins = []
    for n in range(4):
        container = Container(tmp_path / "parts", job=f"job{n}")
        pause = 0.08 if n < 3 else 0
        processes = start(container, kind, pause, world, port + 1 + n)
        begins.append({process.stdout.readline() for process in processes})
        if n < 3:
            container.ask()
        found = ended(processes)
        assert bool(found) == (n == 3), "each of the first three was suspended"
    assert all(len(each) == 1 for each in begins), begins
    assert len({min(each) for each in begins}) == 4, "each goes on further than the one before"
    assert sorted(found) == sorted(whole)  # A rank has batch norms of its own.
