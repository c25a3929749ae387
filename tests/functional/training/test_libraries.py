"""Real trainings with PyTorch Lightning and transformers.Trainer, on the CPU.

What is suspended ends with the weights of an uninterrupted training.
"""

from __future__ import annotations

import json

import pytest

from tests.functional.training.processes import Container
from tests.functional.training.test_torch import PYTHON


def there(package: str) -> bool:
    return any(PYTHON.parents[1].glob(f"lib/python3*/site-packages/{package}"))


pytestmark = pytest.mark.skipif(
    not there("lightning") or not there("transformers"), reason="no Lightning: make test-torch"
)

COMMON = """
import hashlib, json, os, signal, sys, time
import torch
import slotq_training as slotq

torch.set_num_threads(1)
data = torch.utils.data.TensorDataset(
    *(torch.randn(48, n, generator=torch.Generator().manual_seed(n)) for n in (8, 1))
)
ranks, (how, when) = int(sys.argv[2]), ("end", 0)

def net():
    return torch.nn.Sequential(
        torch.nn.Linear(8, 64), torch.nn.Dropout(0.2), torch.nn.Linear(64, 1)
    )

def weights(model):
    digest = hashlib.sha256()
    for name, value in sorted(model.state_dict().items()):
        digest.update(value.numpy().tobytes())
    return digest.hexdigest()

def say(*words):
    os.write(1, (" ".join(map(str, words)) + chr(10)).encode())

def step(number):
    '''Called in each step: asks for the suspend in the step where it is due.'''
    if how == "end" or int(os.environ.get("RANK") or os.environ.get("LOCAL_RANK") or 0):
        return
    if number >= when:
        time.sleep(0.05)
    if number + 1 != when:
        return
    if how == "kill":
        slotq._Saves.commit = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
    if how == "sigterm":
        os.kill(os.getpid(), signal.SIGTERM)
    else:
        slotq._watch._learn({"via": "marker", "grace": None, "stopping": False})

def attempts(train):
    '''Each attempt is a process of its own; all share what has been imported.'''
    global how, when
    ways = json.loads(sys.argv[1])
    if ranks > 1:
        (how, when), = ways
        return train()
    for n, (how, when) in enumerate(ways):
        if os.fork() == 0:
            os.environ["TRAINING_JOB_NAME"] = f"job{n}"
            if how == "sigterm":
                del os.environ["TRAINING_JOB_NAME"]  # Else it waits to be killed.
            train()
            os._exit(0)
        say("ended", os.waitstatus_to_exitcode(os.wait()[1]))
"""

LIGHTNING = """
import logging, warnings
import lightning
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
warnings.simplefilter("ignore")

class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = net()
    def on_train_start(self):
        say("from", self.trainer.global_step)
    def training_step(self, batch, _):
        step(self.trainer.global_step)
        x, y = batch
        loss = torch.nn.functional.mse_loss(self.net(x), y)
        self.log("loss", loss)
        return loss
    def validation_step(self, batch, _):
        self.log("val", torch.nn.functional.mse_loss(self.net(batch[0]), batch[1]))
    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=0.01)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)]

def train():
    lightning.seed_everything(3)
    suspend = slotq.LightningCallback()
    trainer = lightning.Trainer(
        max_epochs=3, callbacks=[suspend], accelerator="cpu", devices=ranks, logger=False,
        strategy="ddp" if ranks > 1 else "auto", enable_progress_bar=False,
        enable_model_summary=False, num_sanity_val_steps=0,
    )
    model = Model()
    loader = slotq.resumable(torch.utils.data.DataLoader(data, batch_size=4, shuffle=True))
    trainer.fit(model, loader, torch.utils.data.DataLoader(data, batch_size=8),
                ckpt_path=suspend.latest())
    say("weights", weights(model))
"""

TRAINER = """
import transformers
transformers.logging.set_verbosity_error()

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = net()
    def forward(self, x, labels):
        step(self.state.global_step)
        return {"loss": torch.nn.functional.mse_loss(self.net(x), labels)}

class Begin(transformers.TrainerCallback):
    def on_train_begin(self, args, state, control, **_):
        say("from", state.global_step)

def train():
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
    model.state = trainer.state
    trainer.add_callback(type("State", (transformers.TrainerCallback,), {
        "on_train_begin": lambda self, args, state, control, **_: setattr(model, "state", state)}))
    trainer.train(resume_from_checkpoint=suspend.latest())
    say("weights", weights(model))
"""

SCRIPTS = {"lightning": COMMON + LIGHTNING, "transformers": COMMON + TRAINER}
QUIET = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
PATIENCE = 300.0


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """The final weights of each training that runs in one go."""
    found = {}
    for name in SCRIPTS:
        said = run(Container(tmp_path_factory.mktemp(name)), name, ("end", 0))
        found[name] = said[1]
    return found


def run(container, name, *attempts):
    """What so many attempts of a training say, each ended in its way at its step."""
    process = start(container, name, 1, *attempts)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    return told(out)


def start(container, name, ranks, *attempts, **environment):
    script = SCRIPTS[name] + "\nif __name__ == '__main__':\n    attempts(train)\n"
    words = (json.dumps(attempts), str(ranks))
    names = QUIET | environment
    return container.start(script, *words, python=PYTHON, patience=PATIENCE, **names)


def told(out):
    return [line for line in out.splitlines() if line.split(" ")[0] in {"from", "ended", "weights"}]


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_training_ended_again_and_again_ends_with_the_same_weights(tmp_path, name, uninterrupted):
    """In the middle of an epoch, killed in a save, at an epoch's end, after the last step."""
    container = Container(tmp_path)
    ways = [("suspend", 5), ("kill", 8), ("suspend", 12), ("suspend", 17), ("suspend", 36)]
    said = run(container, name, *ways, ("end", 0))
    begins = [line for line in said if line.startswith("from")]
    steps = (0, 5, 5, 12, 17, 36)
    assert begins == [
        f"from {n}" for n in steps[: 5 if name == "lightning" else 6]
    ]  # It has ended.
    ends = [line for line in said if line.startswith("ended")]
    assert ends == [f"ended {n}" for n in (75, -9, 75, 75, 75, 0)]
    assert said[-2] == uninterrupted[name]
    report = json.loads((container.checkpoints / "_slotq/job4/report.json").read_text())
    assert (report["step"], report["of"], report["checkpoint"]["step"]) == (36, 36, 36)
    assert "loss" in report["metrics"]


def test_lightnings_own_way_with_sigterm_is_not_taken(tmp_path, uninterrupted):
    """It would end the training before it is saved."""
    said = run(Container(tmp_path), "lightning", ("sigterm", 5), ("end", 0))
    assert said[1] == "ended 75"
    assert int(said[2].split()[1]) >= 5
    assert said[3] == uninterrupted["lightning"]


def ranks(container, name, way, port):
    """What two ranks say. Lightning starts the second one itself."""
    names = [{"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}]
    if name == "transformers":
        world = names[0] | {"WORLD_SIZE": "2"}
        names = [world | {"RANK": str(n), "LOCAL_RANK": str(n)} for n in range(2)]
    processes = [start(container, name, 2, way, **each) for each in names]
    said = [process.communicate(timeout=PATIENCE) for process in processes]
    code = 0 if way[0] == "end" else 75
    assert [process.returncode for process in processes] == [code] * len(processes), said
    return sorted(line for out, _ in said for line in told(out))


@pytest.mark.parametrize("name", SCRIPTS)
def test_two_ranks_stop_at_one_step_and_end_with_the_same_weights(tmp_path, name):
    port = 23640 + 10 * len(name)
    whole = ranks(Container(tmp_path / "whole"), name, ("end", 0), port)
    assert whole[0] == whole[1] == "from 0"
    assert whole[2] == whole[3]
    ranks(Container(tmp_path / "parts"), name, ("suspend", 4), port + 1)
    again = ranks(Container(tmp_path / "parts", job="job2"), name, ("end", 0), port + 2)
    assert again[0] == again[1] != "from 0"
    assert again[2:] == whole[2:]
