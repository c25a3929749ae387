"""The callbacks' own logic, without the libraries: what is kept, what is whole, when they save."""

from __future__ import annotations

import random
from types import SimpleNamespace

import pytest

import slotq_training
from slotq_training import _LightningCallback, _TransformersCallback, resumable


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("SLOTQ_CHECKPOINT_DIR", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.delenv("TRAINING_JOB_NAME", raising=False)
    monkeypatch.setattr(slotq_training, "_watch", None)
    monkeypatch.setattr(slotq_training, "suspend", lambda: gone.append(True))
    gone: list[bool] = []
    yield SimpleNamespace(path=tmp_path, gone=gone)
    if slotq_training._watch is not None:
        slotq_training._watch.close()


class Arguments:
    def __init__(self, folder, keep):
        self.output_dir, self.save_total_limit = str(folder.path), keep


class Training:
    """A Trainer of transformers, as far as the callback sees it."""

    def __init__(self, folder, keep=None):
        self.folder = folder
        self.callback = _TransformersCallback()
        self.arguments = Arguments(folder, keep)
        self.control = SimpleNamespace(should_save=False, should_evaluate=True)
        self.state = SimpleNamespace(
            global_step=0, max_steps=100, epoch=0.5, is_local_process_zero=True,
            best_model_checkpoint=None,
        )  # fmt: skip
        self.call("on_init_end")
        self.callback.latest()
        self.call("on_train_begin")

    def call(self, name):
        getattr(self.callback, name)(self.arguments, self.state, self.control, logs={})

    def save(self, step, *, whole=True):
        self.state.global_step = step
        made = self.folder.path / f"checkpoint-{step}"
        (made / "inner").mkdir(parents=True, exist_ok=True)
        (made / "inner" / "model.bin").write_bytes(bytes(step))
        if whole:
            self.call("on_save")

    @property
    def kept(self):
        return sorted(int(path.name[11:]) for path in self.folder.path.glob("checkpoint-*"))

    @property
    def latest(self):
        found = _TransformersCallback()
        found.on_init_end(self.arguments, self.state, self.control)
        latest = found.latest()
        return None if latest is None else latest.rpartition("-")[2]


def test_the_trainers_checkpoint_counts_once_it_is_whole(folder):
    training = Training(folder)
    training.save(5)
    training.save(9, whole=False)
    assert training.latest == "5"


@pytest.mark.parametrize("damage", [b"", b"\1" * 9])
def test_a_damaged_checkpoint_of_the_trainer_is_not_loaded(folder, damage):
    training = Training(folder)
    assert training.latest is None
    training.save(5)
    training.save(9)
    assert training.latest == "9"
    (folder.path / "checkpoint-9" / "inner" / "model.bin").write_bytes(damage)
    assert training.latest == "5"


def test_old_ones_go_when_the_new_one_is_whole(folder):
    """Not before, as the Trainer does it; the best one stays, and what others have made."""
    training = Training(folder, keep=2)
    assert training.arguments.save_total_limit is None
    (folder.path / "checkpoint-1").mkdir()
    for step in (5, 10, 15):
        training.save(step, whole=False)
        assert len(training.kept) <= 4
        training.call("on_save")
    assert training.kept == [1, 10, 15]
    training.state.best_model_checkpoint = str(folder.path / "checkpoint-10")
    training.save(20)
    training.save(25)
    assert training.kept == [1, 10, 20, 25]


def test_an_asked_trainer_saves_without_evaluating_and_goes(folder):
    training = Training(folder)
    training.call("on_step_end")
    assert not training.control.should_save
    slotq_training._start()._learn({"via": "marker", "grace": None, "stopping": False})
    training.call("on_step_end")
    assert (training.control.should_save, training.control.should_evaluate) == (True, False)
    training.save(7)
    assert folder.gone == [True]
    assert training.latest == "7"


def test_what_is_outside_of_the_checkpoints_is_named(folder, capsys):
    arguments = SimpleNamespace(output_dir="/elsewhere")
    _TransformersCallback().on_init_end(arguments, None, None)
    assert "/elsewhere is lost with the job" in capsys.readouterr().err


class Lightning:
    """A Trainer of Lightning, as far as the callback sees it."""

    def __init__(self, callback, accumulate=1, batches=6):
        self.callback, self.batches = callback, batches
        self.accumulate_grad_batches = accumulate
        self.global_step = self.current_epoch = self.local_rank = 0
        self.callback_metrics = {"loss": 0.5, "step": 3}
        self.train_dataloader, self.loggers, self.ckpt_path = None, [], None
        self.estimated_stepping_batches = float("inf")
        callback.on_train_start(self, None)

    def save_checkpoint(self, path):
        path.write_bytes(bytes(self.global_step))

    def batch(self, number):
        self.is_last_batch = number == self.batches - 1
        self.global_step += (number + 1) % self.accumulate_grad_batches == 0
        self.callback.on_train_batch_end(self, None, None, None, number)


def steps(folder):
    return sorted(path.stat().st_size for path in folder.path.glob("slot-*/lightning.ckpt"))


def ask():
    slotq_training._start()._learn({"via": "marker", "grace": None, "stopping": False})


def test_lightning_is_not_saved_between_two_optimizer_steps(folder):
    trainer = Lightning(_LightningCallback(), accumulate=2)
    ask()
    trainer.batch(0)
    assert not folder.gone
    trainer.batch(1)
    assert folder.gone == [True]
    assert steps(folder) == [1]


def test_lightning_goes_after_the_epochs_end_where_the_last_batch_is_asked(folder):
    trainer = Lightning(_LightningCallback())
    trainer.batch(0)
    ask()
    trainer.batch(5)
    assert steps(folder) == [2], "saved, in case the validation takes too long"
    assert not folder.gone
    trainer.callback.on_train_epoch_end(trainer, None)
    assert folder.gone


def test_lightning_saves_every_n_steps_and_finds_the_newest(folder):
    trainer = Lightning(_LightningCallback(every_steps=2, every_epoch=False))
    for number in range(5):
        trainer.batch(number)
    assert steps(folder) == [2, 4]
    found = _LightningCallback()
    assert found.latest() == str(folder.path / "slot-2" / "lightning.ckpt")
    (folder.path / "slot-2" / "lightning.ckpt").write_bytes(b"torn")
    assert _LightningCallback().latest() == str(folder.path / "slot-1" / "lightning.ckpt")


class Loader:
    """Shuffles with the global generator, as torch's do."""

    def __len__(self):
        return 6

    def __iter__(self):
        order = list(range(6))
        random.shuffle(order)
        return iter(order)


@pytest.mark.parametrize("done", range(7))
def test_a_resumable_loader_goes_on_where_it_was(done):
    random.seed(4)
    order = list(resumable(Loader()))
    random.seed(4)
    batches = iter(loader := resumable(Loader()))
    for _ in range(done):
        next(batches)
    random.random()  # The training's own.
    state, generator = loader.state_dict(), random.getstate()
    expected = random.random()
    random.seed(99)  # The next attempt.
    loader = resumable(Loader())
    loader.load_state_dict(state)
    random.setstate(generator)
    batches = iter(loader)
    if 0 < done < 6:
        found = [next(batches)]
        assert random.random() == expected, "the training draws what it would have drawn"
        assert [*found, *batches] == order[done:]
    else:
        assert sorted(batches) == list(range(6)), "a new epoch"


def test_a_loader_without_a_length_is_refused():
    with pytest.raises(TypeError):
        resumable(iter([]))


def test_a_loader_with_a_state_stays_as_it_is():
    loader = SimpleNamespace(state_dict=dict)
    assert resumable(loader) is loader
