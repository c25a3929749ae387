"""What SageMaker's agent lays beside checkpoints never costs one, whichever way they are saved.

The emulator's agent copies between any two steps of a save, under many seeds. Each next attempt
gets what is in S3, with the markers that went there.
"""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import slotq_training
from slotq.local.container.checkpoints import Checkpoints
from slotq.local.container.transfer import Storage
from slotq.local.container.workdir import Host
from slotq_training import _LightningCallback, _TransformersCallback

SEEDS = range(6)
SAVES = 3
"""Of each attempt."""


class Bucket:
    """S3: objects by key."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    def upload_file(self, file: str, _: str, key: str) -> None:
        self.objects[key] = Path(file).read_bytes()

    def download_file(self, _: str, key: str, file: str) -> None:
        Path(file).write_bytes(self.objects[key])

    def get_paginator(self, _: str) -> Any:
        contents = [{"Key": key} for key in sorted(self.objects)]
        return SimpleNamespace(paginate=lambda **_: [{"Contents": contents}])


class Attempt:
    """A container whose checkpoints the agent copies."""

    def __init__(self, tmp: Path, bucket: Bucket, seed: str, monkeypatch: Any) -> None:
        root = tmp / seed / "ml"
        self.folder = root / "checkpoints"
        s3: Any = bucket
        host = Host(name="algo-1", root=root, isolated=True)
        self._agent = Checkpoints(Storage(s3), {"S3Uri": "s3://b/c"}, host, seed=seed)
        self._agent.restore()
        self._one_at_a_time = threading.Lock()
        monkeypatch.setenv("SLOTQ_CHECKPOINT_DIR", str(self.folder))
        monkeypatch.setattr(slotq_training, "_watch", None)

    def copy(self) -> None:
        with self._one_at_a_time:  # The thread that writes the report may come here, too.
            self._agent.sync()

    def end(self) -> None:
        """SageMaker copies what is left."""
        if slotq_training._watch is not None:
            slotq_training._watch.close()
        with self._one_at_a_time:
            self._agent.sync(last=True)


Copy = Callable[[], None]


class WithManager:
    """`checkpoint.manager`."""

    def __init__(self, copy: Copy) -> None:
        self.copy = copy
        self.model = {"step": 0}
        self.manager = self.made(self.model)
        self.resumed = self.model["step"]

    def made(self, model):
        return slotq_training.Manager(model, keep=1)

    def save(self, step: int) -> None:
        self.model["step"] = step
        self.manager.save()


class WithBackgroundManager(WithManager):
    def made(self, model):
        return slotq_training.Manager(model, keep=1, background=True)

    def save(self, step: int) -> None:
        super().save(step)
        self.manager._wait()


class WithHfai:
    """`hfai.checkpoint.init`, in a folder that is named like a marker."""

    class Model:
        step = 0

        def state_dict(self):
            return {"step": self.step}

        def load_state_dict(self, state):
            self.step = state["step"]

    def __init__(self, copy: Copy) -> None:
        self.copy = copy
        self.model: Any = self.Model()
        slotq_training._init(self.model, ckpt_path="latest.sagemaker-uploaded", every_minutes=None)
        self.resumed = self.model.step

    def save(self, step: int) -> None:
        self.model.step = step
        self.model.try_save.__self__.save()


class WithLightning:
    """The callback for Lightning, as it is called at an epoch's end."""

    train_dataloader, loggers, estimated_stepping_batches = None, (), 99
    current_epoch = local_rank = global_step = 0

    def __init__(self, copy: Copy) -> None:
        self.copy = copy
        self.callback = _LightningCallback(keep=1)
        self.ckpt_path = self.callback.latest()
        self.resumed = 0 if self.ckpt_path is None else int(self.read(Path(self.ckpt_path)))
        self.callback.on_train_start(self, None)

    def read(self, path: Path) -> str:
        return path.read_text()

    def save_checkpoint(self, path: Path) -> None:
        path.write_text(str(self.global_step))
        self.copy()

    def save(self, step: int) -> None:
        self.global_step = step
        self.callback.on_train_epoch_end(self, None)


class WithShardedLightning(WithLightning):
    """The checkpoint is a folder that torch.distributed.checkpoint has written."""

    def read(self, path: Path) -> str:
        return (path / ".metadata").read_text()

    def save_checkpoint(self, path: Path) -> None:
        (path / "optimizer").mkdir(parents=True, exist_ok=True)
        for name in ("__0_0.distcp", "optimizer/__0_1.distcp", ".metadata"):
            (path / name).write_text(str(self.global_step))
            self.copy()


class WithTransformers:
    """The callback for transformers, with checkpoints that are renamed when they are whole."""

    def __init__(self, copy: Copy) -> None:
        self.copy = copy
        self.folder = Path(slotq_training.checkpoint_dir())
        self.callback = _TransformersCallback()
        self.arguments = SimpleNamespace(output_dir=str(self.folder), save_total_limit=2)
        self.state = SimpleNamespace(
            global_step=0, epoch=0.5, is_local_process_zero=True, best_model_checkpoint=None
        )
        self.callback.on_init_end(self.arguments, self.state, None)
        latest = self.callback.latest()
        self.resumed = 0 if latest is None else int((Path(latest) / "model.bin").read_text())
        self.callback.on_train_begin(self.arguments, self.state, None)

    def save(self, step: int) -> None:
        self.state.global_step = step
        made, folder = self.folder / "tmp", self.folder / f"checkpoint-{step}"
        (made / "inner").mkdir(parents=True, exist_ok=True)
        for name in ("model.bin", "inner/optimizer.bin"):
            (made / name).write_text(str(step))
            self.copy()
        made.rename(folder)
        self.copy()
        self.callback.on_save(self.arguments, self.state, None)


class WithoutHelp:
    """A script that writes one file as docs/suspendable.md shows, and the small shared value."""

    def __init__(self, copy: Copy) -> None:
        self.copy = copy
        self.saved = Path(slotq_training.checkpoint_dir()) / "state.json"
        self.resumed = json.loads(self.saved.read_text()) if self.saved.exists() else 0
        assert slotq_training.life_state.get(0) == self.resumed

    def save(self, step: int) -> None:
        unfinished = self.saved.with_suffix(".unfinished")
        unfinished.write_text(json.dumps(step))
        self.copy()
        unfinished.replace(self.saved)
        slotq_training.life_state.set(step)


WAYS = [
    WithManager, WithBackgroundManager, WithHfai, WithLightning, WithShardedLightning,
    WithTransformers, WithoutHelp,
]  # fmt: skip


def between(attempt: Attempt, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Let the agent copy before and after each call of a function of slotq_training."""
    function = getattr(slotq_training, name)

    def copying(*words, **named):
        attempt.copy()
        try:
            return function(*words, **named)
        finally:
            attempt.copy()

    monkeypatch.setattr(slotq_training, name, copying)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_training_resumes_from_its_last_save(tmp_path, monkeypatch, way, seed):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.delenv("TRAINING_JOB_NAME", raising=False)
    bucket, step = Bucket(), 0
    for number in range(3):
        with monkeypatch.context() as patch:
            attempt = Attempt(tmp_path, bucket, f"{seed}-{number}", patch)
            for name in ("_size_and_sum", "_write_atomically", "_write_manifest", "_dump"):
                between(attempt, patch, name)
            training = way(attempt.copy)
            assert training.resumed == step
            for _ in range(SAVES):
                step += 1
                training.save(step)
                attempt.copy()
            attempt.end()


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "checkpoint-10"
    (made / "inner").mkdir(parents=True)
    for name in ("model.bin", "inner/optimizer.bin", ".metadata"):
        (made / name).write_text(name)
    return made


def manifest_of(folder: Path) -> dict[str, Any]:
    return {"number": 1, "files": slotq_training._entries(folder, folder.rglob("*"))}


def names(folder: Path) -> list[str]:
    return [entry["file"] for entry in manifest_of(folder)["files"]]


OWN = [".metadata", "inner/optimizer.bin", "model.bin"]


@pytest.mark.parametrize("marker", ["sagemaker-uploading", "sagemaker-uploaded"])
@pytest.mark.parametrize("of", ["model.bin", "inner/optimizer.bin", ".metadata", "renamed.bin"])
def test_a_manifest_never_names_a_marker(folder, of, marker):
    (folder / f"{of}.{marker}").write_bytes(b"")
    assert names(folder) == OWN


def test_a_manifest_names_no_hidden_file_that_a_write_leaves_behind(folder):
    (folder / ".model.bin.17.4").write_bytes(b"")
    assert names(folder) == OWN


def test_what_vanishes_before_it_is_read_is_left_out(folder, monkeypatch):
    """Anybody's file, and a whole folder."""
    foreign = folder / "gone"
    foreign.mkdir()
    (foreign / "cache.lock").write_bytes(b"")
    summed = slotq_training._size_and_sum

    def vanishes(path):
        if path.parent == foreign:
            shutil.rmtree(foreign)
        return summed(path)

    monkeypatch.setattr(slotq_training, "_size_and_sum", vanishes)
    assert names(folder) == OWN
    listed = slotq_training._files_below(folder)
    first = next(listed)
    shutil.rmtree(folder / "inner")
    assert first not in list(listed), "the walk goes on where a folder has gone"


def test_size_and_sum_are_of_one_reading(folder):
    """Else a file that grows between two looks is never whole."""
    entries = {entry["file"]: entry for entry in manifest_of(folder)["files"]}
    assert entries["model.bin"]["bytes"] == 9
    assert slotq_training._is_whole(folder, manifest_of(folder))


@pytest.mark.parametrize("file", OWN)
def test_a_part_that_is_missing_makes_it_incomplete(folder, file):
    """Also torch.distributed.checkpoint's hidden one, without which no shard can be read."""
    manifest = manifest_of(folder)
    (folder / file).unlink()
    assert not slotq_training._is_whole(folder, manifest)


def test_a_marker_that_an_earlier_version_named_is_not_missed(folder):
    manifest = manifest_of(folder)
    manifest["files"].append({"file": "model.bin.sagemaker-uploading", "bytes": 0, "crc32": 0})
    assert slotq_training._is_whole(folder, manifest)


def test_a_file_of_the_users_own_that_is_named_like_a_marker_costs_nothing(folder):
    (folder / "notes.sagemaker-uploaded").write_text("mine")
    manifest = manifest_of(folder)
    assert slotq_training._is_whole(folder, manifest)
    assert (folder / "notes.sagemaker-uploaded").read_text() == "mine"


def test_the_ranks_own_file_is_the_one_that_the_manifest_names(tmp_path, monkeypatch):
    """Not a marker beside it."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("SLOTQ_CHECKPOINT_DIR", str(tmp_path))
    monkeypatch.delenv("TRAINING_JOB_NAME", raising=False)
    monkeypatch.setattr(slotq_training, "_watch", None)
    WithLightning(bool).save(1)
    for number in range(20):  # A folder lists some of them first.
        (tmp_path / f"slot-1/rank-00000.{number}.sagemaker-uploaded").write_bytes(b"")
    assert WithLightning(bool).resumed == 1
    slotq_training._watch.close()
