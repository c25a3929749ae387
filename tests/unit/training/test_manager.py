"""`checkpoint.manager`: what is saved, when, and what is loaded."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

import pytest

import slotq_training
from slotq_training import checkpoint


class Weights:
    """A model in plain Python."""

    def __init__(self) -> None:
        self.values = [0.0]

    def state_dict(self):
        return {"values": list(self.values)}

    def load_state_dict(self, state):
        self.values = list(state["values"])

    def learn(self, batch: float) -> None:
        self.values.append(self.values[-1] * 0.5 + batch * random.random())


class Shuffled:
    """A loader that shuffles with the global generator, as torch's do."""

    def __iter__(self) -> Iterator[float]:
        order = list(range(5))
        random.shuffle(order)
        return (float(n) for n in order)


class Stopped(BaseException):
    """In place of the end of the process."""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("SLOTQ_CHECKPOINT_DIR", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.delenv("TRAINING_JOB_NAME", raising=False)
    monkeypatch.setattr(slotq_training, "_watch", None)
    yield tmp_path
    if slotq_training._watch is not None:
        slotq_training._watch.close()


def slots(folder):
    return {
        path.parent.name: json.loads(path.read_text())["step"]
        for path in folder.glob("slot-*/manifest.json")
    }


def trained(stop_after: int, monkeypatch, **settings):
    """A training of three epochs, as one attempt that is suspended after so many more steps."""
    random.seed(7)
    model = Weights()
    ckpt = checkpoint.manager(model, **settings)
    left = stop_after

    def asked() -> bool:
        nonlocal left
        left -= 1
        return left < 0

    def gone() -> None:
        raise Stopped

    monkeypatch.setattr(slotq_training, "should_suspend", asked)
    monkeypatch.setattr(slotq_training, "suspend", gone)
    for _ in ckpt.epochs(3):
        for batch in ckpt.batches(Shuffled()):
            model.learn(batch)
        random.random()
    return model.values


@pytest.mark.parametrize("stop_after", range(1, 9))
@pytest.mark.parametrize("background", [False, True])
def test_a_training_suspended_again_and_again_ends_as_an_uninterrupted_one(
    folder, monkeypatch, stop_after, background
):
    whole = trained(1000, monkeypatch, path="whole")
    for _ in range(100):
        try:
            found = trained(stop_after, monkeypatch, path="parts", background=background)
        except Stopped:
            continue
        break
    assert found == whole


def test_the_newest_are_kept_and_no_more(folder):
    ckpt = checkpoint.manager({"n": 1}, keep=2)
    for step in range(7):
        ckpt.start_step = step
        ckpt.save()
    assert sorted(slots(folder).values()) == [4, 5, 6], "two, and the one before them"
    assert len(list(folder.glob("slot-*"))) == 3


def test_a_damaged_file_is_not_loaded(folder, capsys):
    ckpt = checkpoint.manager({"n": 1})
    for step in (1, 2):
        ckpt.start_step = step
        ckpt.save()
    newest = folder / "slot-2" / "rank-00000.pickle"
    content = bytearray(newest.read_bytes())
    content[5] ^= 1
    newest.write_bytes(content)
    assert checkpoint.manager({}).start_step == 1
    assert "an older one is used" in capsys.readouterr().err


@pytest.mark.parametrize("left", ["", "{", "[]", '{"number": 9}', '{"number": 9, "files": [{}]}'])
def test_a_damaged_manifest_is_not_loaded(folder, left):
    checkpoint.manager({"n": 1}).save()
    (folder / "slot-0").mkdir()
    (folder / "slot-0" / "manifest.json").write_text(left)
    model = {"n": 0}
    assert checkpoint.manager(model).resumed
    assert model == {"n": 1}


def test_every_n_steps_and_at_an_epochs_end(folder):
    ckpt = checkpoint.manager({}, every_steps=2)
    saved = []
    for step in range(5):
        ckpt.after_step(0, step)
        saved.append(max(slots(folder).values(), default=0))
    assert saved == [0, 2, 2, 4, 4]
    ckpt.after_epoch(0)
    again = checkpoint.manager({})
    assert (again.start_epoch, again.start_step) == (1, 0)


def test_every_n_minutes(folder, monkeypatch):
    now = 1000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    ckpt = checkpoint.manager({}, every_minutes=2)
    ckpt.after_step(0, 0)
    now += 121
    ckpt.after_step(0, 1)
    now += 60
    ckpt.after_step(0, 2)
    assert set(slots(folder).values()) == {2}


def test_your_own_values_come_back(folder):
    ckpt = checkpoint.manager({})
    assert ckpt.others == {}
    ckpt.after_epoch(0, {"best": 0.25})
    assert checkpoint.manager({}).others == {"best": 0.25}


def test_what_the_checkpoint_lacks_is_named(folder):
    checkpoint.manager({}).save()
    with pytest.raises(ValueError, match="has no optimizer"):
        checkpoint.manager({}, {})


def test_all_objects_come_back(folder):
    parts = {name: {"is": name} for name in ("model", "optimizer", "scheduler", "scaler")}
    checkpoint.manager(**parts).save()
    empty = {name: {} for name in parts}
    checkpoint.manager(**empty)
    assert empty == parts


def test_the_report_tells_of_the_save(folder):
    ckpt = checkpoint.manager({})
    ckpt.after_step(0, 0)
    ckpt.save()
    slotq_training._watch.at_exit()
    report = json.loads((folder / "_slotq/local/report.json").read_text())
    assert report["checkpoint"]["step"] == 1
    assert report["checkpoint"]["seconds"] >= 0


class Tensor:
    """As much of a tensor as the division looks at."""

    def __init__(self, size: int) -> None:
        self.nbytes = size


def test_large_tensors_are_divided_evenly_and_found_again():
    tensors = [Tensor(size * 100_000) for size in (9, 3, 3, 3, 1)]
    state = {
        "a": {"x": tensors[0], "y": tensors[1]},
        "b": [tensors[2], (tensors[3], 7)],
        "c": tensors[4],
    }
    skeleton, parts = slotq_training._divided(state, 2, 1_000_000)
    assert [sum(t.nbytes for t in part.values()) for part in parts] == [1_000_000, 900_000]
    assert slotq_training._joined(skeleton, {**parts[0], **parts[1]}) == state


@pytest.mark.parametrize(("world", "above"), [(1, 0), (4, 10_000_000)])
def test_a_small_model_is_saved_by_rank_0_alone(world, above):
    state = {"x": Tensor(1_000_000)}
    skeleton, parts = slotq_training._divided(state, world, above)
    assert skeleton is state
    assert not any(parts)
