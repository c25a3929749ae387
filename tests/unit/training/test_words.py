"""The words of slotq_training, and the formats that the queue relies on."""

from __future__ import annotations

import ast
import json
import math
import sys
from pathlib import Path

import pytest

import slotq_training
from tests.work import counted_calls, counted_lines

ROOT = Path(__file__).parents[3]
FILE = ROOT / "client_sdk" / "training" / "slotq_training.py"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("SLOTQ_CHECKPOINT_DIR", str(tmp_path / "checkpoints"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.delenv("TRAINING_JOB_NAME", raising=False)
    return tmp_path / "checkpoints"


def test_it_is_python_3_8():
    ast.parse(FILE.read_text(), feature_version=(3, 8))


def test_the_formats_are_what_the_queue_reads_and_writes():
    assert slotq_training.marker_name("job1") == "_slotq/job1/suspend.json"
    assert slotq_training.report_name("job1") == "_slotq/job1/report.json"
    assert slotq_training.RELEASED == "slotq-released"
    assert slotq_training.EXIT_RELEASED == 75


def test_checkpoints_stand_where_the_environment_says(folder):
    assert slotq_training.checkpoint_dir() == str(folder)
    assert folder.is_dir()


@pytest.mark.parametrize(
    ("name", "attempt"),
    [("job1", 1), ("job1-qstamp-2-0a1b2c", 2), ("job1-qstamp-31-0a1b2c", 31), ("qstamp-7", 1)],
)
def test_the_attempt_is_in_the_training_jobs_name(monkeypatch, name, attempt):
    monkeypatch.setenv("TRAINING_JOB_NAME", name)
    assert slotq_training.attempt() == attempt


def test_the_queue_may_say_which_attempt_it_is(monkeypatch):
    monkeypatch.setenv("SLOTQ_ATTEMPT", "5")
    assert slotq_training.attempt() == 5


@pytest.mark.parametrize("value", [0, 7, -1, 2.5, "phase 2", None, [1, 2], {"best": 0.5}])
def test_life_state_is_handed_on(folder, value):
    assert slotq_training.life_state.get("none yet") == "none yet"
    slotq_training.life_state.set(value)
    assert slotq_training.life_state.get("none yet") == value
    assert json.loads((folder / "_slotq" / "life_state.json").read_text())["version"] == 1


@pytest.mark.parametrize(
    ("value", "error"), [("x" * 5000, ValueError), (math.nan, ValueError), ({1}, TypeError)]
)
def test_life_state_is_small_and_json(folder, value, error):
    slotq_training.life_state.set(1)
    with pytest.raises(error):
        slotq_training.life_state.set(value)
    assert slotq_training.life_state.get() == 1


def test_a_metric_is_a_number_or_its_text():
    numbers = [
        slotq_training._number(value) for value in (1, 0.5, math.nan, math.inf, "high", None)
    ]
    assert numbers == [1, 0.5, "nan", "inf", "high", "None"]
    assert slotq_training._number(10**400) == 10**400
    assert len(slotq_training._number(["loss"] * 10_000)) == 200


def resources(tmp_path, monkeypatch, **config):
    (tmp_path / "ml/input/config").mkdir(parents=True)
    (tmp_path / "ml/input/config/resourceconfig.json").write_text(json.dumps(config))
    monkeypatch.setenv("SM_OUTPUT_DIR", str(tmp_path / "ml/output"))
    for name in ("MASTER_IP", "MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)


def test_the_nodes_are_counted(tmp_path, monkeypatch):
    hosts = ["algo-1", "algo-10", "algo-2"]
    resources(
        tmp_path, monkeypatch, current_host="algo-10", hosts=hosts, network_interface_name="lo"
    )
    assert slotq_training.distributed_env() == {
        "MASTER_IP": "127.0.0.1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "2222",
        "WORLD_SIZE": "3",
        "RANK": "2",
    }


def test_the_first_host_is_the_master(tmp_path, monkeypatch):
    hosts = ["algo-1", "algo-2"]
    resources(
        tmp_path, monkeypatch, current_host="algo-2", hosts=hosts, network_interface_name="eth0"
    )
    monkeypatch.setattr("socket.gethostbyname", {"algo-1": "10.0.0.7"}.__getitem__)
    found = slotq_training.distributed_env()
    assert (found["MASTER_IP"], found["MASTER_ADDR"]) == ("10.0.0.7", "algo-1")


def test_without_sagemaker_there_is_one_node(tmp_path, monkeypatch):
    resources(tmp_path, monkeypatch)
    found = slotq_training.distributed_env()
    assert (found["WORLD_SIZE"], found["RANK"], found["MASTER_IP"]) == ("1", "0", "127.0.0.1")


def test_torchruns_port_is_not_the_jobs(tmp_path, monkeypatch):
    resources(tmp_path, monkeypatch)
    monkeypatch.setenv("MASTER_PORT", "29500")
    assert slotq_training.distributed_env()["MASTER_PORT"] == "29500"
    monkeypatch.setenv("LOCAL_RANK", "0")
    assert slotq_training.distributed_env()["MASTER_PORT"] == "2222"


def test_exported_names_leave_what_is_set(tmp_path, monkeypatch):
    resources(tmp_path, monkeypatch)
    environment = {"MASTER_PORT": "5000"}
    monkeypatch.setattr("os.environ", {**environment, "SM_OUTPUT_DIR": str(tmp_path / "ml/output")})
    slotq_training.distributed_env(export=True)
    import os

    assert (os.environ["MASTER_PORT"], os.environ["WORLD_SIZE"]) == ("5000", "1")


class Quiet:
    """The fast path's state: nothing is asked."""

    alert, boundary = False, 0


def test_asking_calls_nothing(monkeypatch):
    """`make bench` measures how long it takes: less than a microsecond."""
    monkeypatch.setattr(slotq_training, "_watch", Quiet())
    assert counted_calls(slotq_training.should_suspend) == counted_calls(lambda: None)
    assert counted_lines(slotq_training.should_suspend) == 3


class Torch:
    """`torch.cuda` before the script uses CUDA."""

    def __init__(self):
        self.cuda, self.queued, self.parts = self, [], []
        self._lazy_call = self.queued.append
        self.set_per_process_memory_fraction = self.parts.append


class TensorFlow:
    """`tensorflow.config` of a job that sees one GPU."""

    def __init__(self):
        self.config, self.limits = self, []

    def list_physical_devices(self, kind):
        return [kind]

    def LogicalDeviceConfiguration(self, memory_limit):  # noqa: N802 - TensorFlow's name
        return memory_limit

    def set_logical_device_configuration(self, gpu, limits):
        self.limits.append((gpu, limits))


@pytest.fixture
def frameworks(monkeypatch):
    """torch and TensorFlow, imported, in a job with a quarter of a GPU of 40 GiB."""
    found = {"torch": Torch(), "tensorflow": TensorFlow()}
    for name, module in found.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setenv("SLOTQ_GPU_FRACTION", "0.25")
    monkeypatch.setenv("SLOTQ_GPU_MEMORY", str(10 << 30))
    monkeypatch.delenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", raising=False)
    return found["torch"], found["tensorflow"]


def test_a_script_holds_its_frameworks_to_its_part_of_a_gpu(frameworks):
    torch, tensorflow = frameworks
    assert slotq_training.limit_gpu_memory() == 0.25
    assert tensorflow.limits == [("GPU", [10_240])]
    assert torch.parts == []  # CUDA is not initialised yet.
    for call in torch.queued:
        call()
    assert torch.parts == [0.25]


def test_a_node_that_does_not_know_its_gpus_memory_leaves_tensorflow_alone(frameworks, monkeypatch):
    monkeypatch.delenv("SLOTQ_GPU_MEMORY")
    assert slotq_training.limit_gpu_memory() == 0.25
    assert frameworks[1].limits == []


def test_a_script_on_whole_gpus_or_under_mps_sets_no_cap(frameworks, monkeypatch):
    monkeypatch.setenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "GPU-1=10240M")
    assert slotq_training.limit_gpu_memory() is None
    monkeypatch.delenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT")
    monkeypatch.delenv("SLOTQ_GPU_FRACTION")
    assert slotq_training.limit_gpu_memory() is None
    assert frameworks[0].queued == frameworks[1].limits == []


def test_a_cap_imports_no_framework(monkeypatch):
    monkeypatch.setenv("SLOTQ_GPU_FRACTION", "0.25")
    monkeypatch.setitem(sys.modules, "torch", None)
    assert slotq_training.limit_gpu_memory() == 0.25
    assert "tensorflow" not in sys.modules
