"""Real trainings with PyTorch Lightning and transformers.Trainer, on the CPU, in torch's environment.

What is suspended ends with the weights of an uninterrupted training.
"""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from tests.functional.training.processes import Container
from tests.functional.training.test_torch import PYTHON


def there(package: str) -> bool:
    return any(PYTHON.parents[1].glob(f"lib/python3*/site-packages/{package}"))


pytestmark = pytest.mark.skipif(
    not there("lightning") or not there("transformers"), reason="no Lightning: make test-torch"
)

COMMON = """
import hashlib, os, sys, time
import torch
import slotq_training as slotq

pause, ranks = float(sys.argv[1]), int(os.environ.get("WORLD_SIZE", 1))
torch.set_num_threads(1)
data = torch.utils.data.TensorDataset(
    *(torch.randn(48, n, generator=torch.Generator().manual_seed(n)) for n in (8, 1))
)

def weights(model):
    digest = hashlib.sha256()
    for name, value in sorted(model.state_dict().items()):
        digest.update(value.numpy().tobytes())
    print("weights", digest.hexdigest(), flush=True)

def net():
    return torch.nn.Sequential(
        torch.nn.Linear(8, 64), torch.nn.Dropout(0.2), torch.nn.Linear(64, 1)
    )
"""

LIGHTNING = (
    COMMON
    + """
import logging, warnings
import lightning
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
warnings.simplefilter("ignore")

class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = net()
    def training_step(self, batch, _):
        time.sleep(pause)
        x, y = batch
        loss = torch.nn.functional.mse_loss(self.net(x), y)
        self.log("loss", loss)
        return loss
    def validation_step(self, batch, _):
        self.log("val", torch.nn.functional.mse_loss(self.net(batch[0]), batch[1]))
    def on_train_start(self):
        print("from", self.trainer.global_step, flush=True)
    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=0.01)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)]

lightning.seed_everything(3)
suspend = slotq.LightningCallback()
trainer = lightning.Trainer(
    max_epochs=3, callbacks=[suspend], accelerator="cpu", logger=False,
    devices=ranks, strategy="ddp" if ranks > 1 else "auto", enable_progress_bar=False,
    enable_model_summary=False, num_sanity_val_steps=0, use_distributed_sampler=True,
)
model = Model()
loader = slotq.resumable(torch.utils.data.DataLoader(data, batch_size=4, shuffle=True))
trainer.fit(model, loader, torch.utils.data.DataLoader(data, batch_size=8),
            ckpt_path=suspend.latest())
weights(model)
"""
)

TRAINER = (
    COMMON
    + """
import transformers
transformers.logging.set_verbosity_error()

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = net()
    def forward(self, x, labels):
        time.sleep(pause)
        return {"loss": torch.nn.functional.mse_loss(self.net(x), labels)}

class Begin(transformers.TrainerCallback):
    def on_train_begin(self, args, state, control, **_):
        print("from", state.global_step, flush=True)

transformers.set_seed(3)
suspend = slotq.TransformersCallback()
args = transformers.TrainingArguments(
    output_dir=slotq.checkpoint_dir(), num_train_epochs=3, per_device_train_batch_size=4,
    learning_rate=0.01, save_strategy="epoch", save_total_limit=2, use_cpu=True, seed=3,
    report_to=[], disable_tqdm=True, logging_steps=5,
)
model = Model()
trainer = transformers.Trainer(
    model, args, train_dataset=[{"x": x, "labels": y} for x, y in data],
    callbacks=[suspend, Begin()],
)
trainer.train(resume_from_checkpoint=suspend.latest())
weights(model)
"""
)

SCRIPTS = {"lightning": LIGHTNING, "transformers": TRAINER}
QUIET = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}


def start(container, name, pause, world=1, port=0):
    def environment(rank):
        if world < 2:
            return QUIET
        names = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(world)}
        return QUIET | names | {"RANK": str(rank), "LOCAL_RANK": str(rank)}

    return [
        container.start(SCRIPTS[name], str(pause), python=PYTHON, **environment(rank))
        for rank in range(world)
    ]


def lines(processes, codes):
    said = [process.communicate(timeout=60) for process in processes]
    for process, (_, err) in zip(processes, said, strict=True):
        assert process.returncode in codes, err
    return {line for out, _ in said for line in out.splitlines() if line.startswith("weights")}


def begun(process):
    """The line with which the training begins."""
    for line in process.stdout:
        if line.startswith("from"):
            return int(line.split()[1])
    raise AssertionError(process.stderr.read())


@pytest.mark.parametrize(("name", "world"), [(name, 1) for name in SCRIPTS])
def test_a_training_suspended_three_times_ends_with_the_same_weights(tmp_path, name, world):
    whole = lines(start(Container(tmp_path / "whole"), name, 0, world, 23610), {0})
    assert len(whole) == 1
    begins = []
    for n in range(4):
        container = Container(tmp_path / "parts", job=f"job{n}")
        processes = start(container, name, 0.08 if n < 3 else 0, world, 23611 + n)
        begins.append(begun(processes[0]))
        if n < 3:
            time.sleep(0.4)
            container.ask()
        found = lines(processes, {75 if n < 3 else 0})
    assert sorted(set(begins)) == begins, "each goes on further than the one before"
    assert found == whole
