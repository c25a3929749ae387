"""What holds a job to its part of a GPU: MPS, played by a script, or the cap of its framework."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.nodes.agent import agent, make_node, settings
from tests.unit.nodes.fake_mps import FakeMps, alive, until_dead

GPU = agent.Gpu(0, "0", 40_960, "GPU-a")
ILLEGAL = "RuntimeError: CUDA error: an illegal memory access was encountered"
ASSERT = "RuntimeError: CUDA error: device-side assert triggered"


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeMps:
    fake = FakeMps(tmp_path / "tools")
    monkeypatch.setenv("PATH", fake.path())
    monkeypatch.setattr(agent.Mps, "SECONDS", 30.0)  # However slow this machine is.
    return fake


@pytest.fixture
def mps(tools: FakeMps, tmp_path: Path) -> Iterator[Any]:
    made = agent.Mps(GPU, tmp_path / "mps/0", many_users=True)
    yield made
    made._end()


def order(name: str, part: int | None, *gpus: int) -> Any:
    document = {"attempt": name, "job": name, "number": 1, "gpus": gpus, "gpu_part": part}
    return agent.Order(document)


# --- orders and the machine


@pytest.mark.parametrize(("part", "gpus"), [(0, (0,)), (100, (0,)), (50, ()), (50, (0, 1))])
def test_a_part_is_one_of_one_gpu(part: int, gpus: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="no part of one GPU"):
        order("one", part, *gpus)


def test_parts_share_a_gpu_until_it_is_full(tmp_path: Path) -> None:
    node = make_node(tmp_path)
    machine = node.machine
    half, quarter, third, whole = (
        agent.Job(one, node)
        for one in (
            order("half", 50, 0),
            order("quarter", 25, 0),
            order("third", 30, 0),
            order("whole", None, 0, 1),
        )
    )
    machine.wait_for_gpus(half)
    machine.wait_for_gpus(quarter)
    started = threading.Event()

    def wait(for_job: Any) -> None:
        machine.wait_for_gpus(for_job)
        started.set()

    for waiting, leaving in ((third, (quarter,)), (whole, (half, third))):
        threading.Thread(target=wait, args=(waiting,), daemon=True).start()
        assert not started.wait(0.2)
        for one in leaving:
            machine.give_back(one)
        assert started.wait(10)
        started.clear()
    assert (machine._taken(0), machine._taken(1)) == (100, 100)


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("", [("0", "GPU-a", 40_960), ("1", "GPU-b", 40_960)]),
        ("1", [("1", "GPU-b", 40_960)]),
        ("GPU-b,MIG-1", [("GPU-b", "GPU-b", 40_960), ("MIG-1", "", None)]),
        ("pretend:1", [("0", "", None)]),
        ("pretend:1x16384", [("0", "", 16_384)]),
    ],
)
def test_a_gpu_is_known_by_its_uuid(tools: FakeMps, setting: str, expected: list[Any]) -> None:
    found = agent.find_gpus(setting)
    assert [(gpu.name, gpu.uuid, gpu.memory_mib) for gpu in found] == expected


BOUNDS = [
    ({"SLOTQ_NODE_GPUS": ""}, "mps"),
    ({"SLOTQ_NODE_GPUS": "", "SLOTQ_NODE_SHARED": "1"}, "framework"),
    ({"SLOTQ_NODE_GPUS": "pretend:1x40960"}, "framework"),
]


@pytest.mark.parametrize(("more", "bound"), BOUNDS, ids=str)
def test_a_job_is_told_its_part_whatever_bounds_it(
    tools: FakeMps, tmp_path: Path, more: dict[str, str], bound: str
) -> None:
    machine = agent.Machine(settings(tmp_path, **more))
    found, mps, variables = machine.bind(order("one", 25, 0))
    assert found == bound
    assert variables["SLOTQ_GPU_FRACTION"] == "0.25"
    assert variables["SLOTQ_GPU_MEMORY"] == str(10 << 30)
    by_mps = {name for name in variables if name.startswith("CUDA_")}
    by_framework = {"XLA_PYTHON_CLIENT_MEM_FRACTION", "TF_FORCE_GPU_ALLOW_GROWTH"} & {*variables}
    assert (bool(by_mps), bool(by_framework)) == (bound == "mps", bound == "framework")
    if mps is not None:
        mps.leave("one")


def test_without_its_memory_a_gpu_has_no_mps(tools: FakeMps, tmp_path: Path) -> None:
    machine = agent.Machine(settings(tmp_path, SLOTQ_NODE_GPUS="MIG-1"))
    bound, mps, variables = machine.bind(order("one", 30, 0))
    assert (bound, mps) == ("framework", None)
    assert variables["SLOTQ_GPU_FRACTION"] == "0.3"
    assert "SLOTQ_GPU_MEMORY" not in variables


def test_whole_gpus_have_no_bound(tools: FakeMps, tmp_path: Path) -> None:
    machine = agent.Machine(settings(tmp_path, SLOTQ_NODE_GPUS=""))
    assert machine.bind(order("one", None, 0, 1)) == ("none", None, {})
    assert tools.started() == []


def test_where_the_daemon_does_not_start_the_framework_bounds(
    tools: FakeMps, tmp_path: Path
) -> None:
    tools.refuse()
    machine = agent.Machine(settings(tmp_path, SLOTQ_NODE_GPUS=""))
    bound, mps, variables = machine.bind(order("one", 50, 1))
    assert (bound, mps) == ("framework", None)
    assert variables["XLA_PYTHON_CLIENT_MEM_FRACTION"] == "0.5"


# --- MPS


def test_one_daemon_runs_while_jobs_have_parts_of_its_gpu(tools: FakeMps, mps: Any) -> None:
    assert mps.join("one")
    assert mps.join("two")
    ((words, gpu, daemon, server),) = tools.started()
    assert (words, gpu) == ("-f -multiuser-server", "GPU-a")
    mps.leave("one")
    mps.leave("one")
    assert alive(daemon)
    mps.leave("two")
    until_dead(daemon, server)
    assert tools.asked("quit") == ["quit"]
    assert mps.join("three")
    assert len(tools.started()) == 2


def test_jobs_of_one_user_need_no_server_of_many(tools: FakeMps, tmp_path: Path) -> None:
    mps = agent.Mps(GPU, tmp_path / "mps/0", many_users=False)
    assert mps.join("one")
    assert [words for words, *_ in tools.started()] == ["-f"]
    mps.leave("one")


def test_a_client_finds_its_daemon_and_its_part(mps: Any, tmp_path: Path) -> None:
    mps.join("one")
    assert mps.variables(25, 10_240) == {
        "CUDA_VISIBLE_DEVICES": "GPU-a",
        "CUDA_MPS_PIPE_DIRECTORY": str(tmp_path / "mps/0/pipe"),
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "GPU-a=10240M",
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "25",
    }
    modes = [(tmp_path / "mps/0" / name).stat().st_mode & 0o777 for name in ("pipe", "log")]
    assert modes == [0o755, 0o700]


def sleepers(tools: FakeMps, count: int) -> list[subprocess.Popen[bytes]]:
    """Clients below this process."""
    found = [subprocess.Popen(["/bin/sleep", "600"]) for _ in range(count)]
    for one in found:
        tools.client(one.pid)
    return found


def test_the_server_ends_the_clients_of_one_job_alone(tools: FakeMps, mps: Any) -> None:
    mps.join("one")
    ((_, _, _, server),) = tools.started()
    (mine,) = sleepers(tools, 1)
    tools.client(1)  # Another job's.
    try:
        mps.terminate(os.getpid())
        assert mine.wait(10) == -signal.SIGKILL
    finally:
        mine.kill()
    assert tools.asked("terminate_client") == [f"terminate_client {server} {mine.pid}"]


def test_a_daemon_that_hangs_is_asked_once_and_killed(tools: FakeMps, mps: Any) -> None:
    mps.join("one")
    ((_, _, daemon, server),) = tools.started()
    found = sleepers(tools, 2)
    tools.hang()
    mps.SECONDS = 2.0
    try:
        mps.terminate(os.getpid())
        assert len(tools.asked("terminate_client")) == 1
        mps.leave("one")
        until_dead(daemon, server)
    finally:
        for one in found:
            one.kill()
            one.wait()


# --- faults


def log(mps: Any, text: str) -> None:
    with (mps._folder / "log/server.log").open("a") as file:
        file.write(text)


FATAL = "[… Server 77] Client {PID: 5} encountered a fatal GPU error\n"
FAULTS: list[tuple[str, str, str, dict[str, str], str]] = [
    # Who had joined, what was logged, who joined then, what they printed last, and who was hit.
    ("ab", FATAL, "", {"a": "", "b": ""}, "ab"),
    ("a", FATAL, "", {"a": ILLEGAL}, ""),
    ("a", FATAL, "b", {"a": ILLEGAL, "b": ""}, "b"),
    ("ab", "", "", {"a": ILLEGAL, "b": ILLEGAL}, "ab"),
    ("ab", "", "", {"a": ILLEGAL, "b": ASSERT}, ""),
    ("ab", "", "", {"a": ASSERT, "b": ASSERT}, ""),
    ("ab", "Client {PID: 5} connected\n", "", {"a": "", "b": ""}, ""),
    ("ab", "a fatal beginning of a line", "", {"a": "", "b": ""}, ""),
]


@pytest.mark.parametrize("case", FAULTS, ids=str)
def test_whom_a_fault_has_hit(mps: Any, case: tuple[str, str, str, dict[str, str], str]) -> None:
    before, logged, after, outputs, expected = case
    if not expected:
        mps.TOGETHER = 0.2
    for name in before:
        mps.join(name)
    log(mps, logged)
    mps.look()
    for name in after:
        mps.join(name)
    hit: list[str] = []

    def end(name: str) -> None:
        if mps.has_hit(name, outputs[name]):
            hit.append(name)

    threads = [threading.Thread(target=end, args=(name,)) for name in outputs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(hit) == sorted(expected)


@pytest.mark.parametrize(("seconds", "hit"), [(0, True), (30, True), (61, False)])
def test_a_fault_is_a_matter_of_moments(
    mps: Any, monkeypatch: pytest.MonkeyPatch, seconds: int, hit: bool
) -> None:
    mps.join("a")
    mps.join("b")
    log(mps, FATAL)
    mps.look()
    later = agent.time.monotonic() + seconds
    monkeypatch.setattr(agent.time, "monotonic", lambda: later)
    assert mps.has_hit("a", "") is hit


def test_who_joins_long_after_a_fault_was_not_hit(mps: Any) -> None:
    mps.TOGETHER = 0.0
    mps.join("a")
    mps.join("b")
    log(mps, FATAL)
    mps.look()
    mps.join("c")
    assert not mps.has_hit("c", "")


def test_a_daemon_that_dies_hits_its_jobs_and_a_new_one_starts(tools: FakeMps, mps: Any) -> None:
    mps.join("a")
    ((_, _, daemon, server),) = tools.started()
    os.kill(daemon, signal.SIGKILL)
    until_dead(daemon)
    assert mps.has_hit("a", "")
    until_dead(server)
    assert mps.join("b")
    assert len(tools.started()) == 2
    assert mps.has_hit("a", "")


# --- the framework's cap

TORCH = {
    "torch/__init__.py": "from torch import cuda",
    "torch/cuda/__init__.py": """
queued, fractions = [], []
_lazy_call = queued.append
set_per_process_memory_fraction = fractions.append
def init():
    for call in queued:
        call()
""",
}
TENSORFLOW = {
    "tensorflow/__init__.py": """
from types import SimpleNamespace
limits = []
def grow(device, enable):
    raise ValueError("Cannot set memory growth on device when virtual devices configured")
config = SimpleNamespace(
    list_physical_devices=lambda kind: [kind],
    LogicalDeviceConfiguration=lambda memory_limit: memory_limit,
    set_logical_device_configuration=lambda gpu, found: limits.append((gpu, found)),
    experimental=SimpleNamespace(set_memory_growth=grow),
)
"""
}


def capped(folder: Path, program: str, files: dict[str, str], *paths: str) -> Any:
    """What a program prints as JSON under the cap. `files` lie beside it."""
    (folder / "cap").mkdir()
    (folder / "cap/sitecustomize.py").write_text(agent.FRAMEWORK_CAP)
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    path = os.pathsep.join(str(folder / one) for one in ("cap", *paths))
    ran = subprocess.run(
        [
            sys.executable,
            "-c",
            "import json, sys; out = {}; " + program + "; print(json.dumps(out))",
        ],
        cwd=folder,
        env={
            "PYTHONPATH": path,
            "SLOTQ_GPU_FRACTION": "0.25",
            "SLOTQ_GPU_MEMORY": str(10 << 30),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout), ran.stderr


def test_torch_is_capped_when_it_initialises_cuda(tmp_path: Path) -> None:
    program = (
        "early = 'torch' in sys.modules; import torch; "
        "before = list(torch.cuda.fractions); torch.cuda.init(); "
        "out = [early, before, torch.cuda.fractions]"
    )
    assert capped(tmp_path, program, TORCH)[0] == [False, [], [0.25]]


def test_tensorflow_is_limited_and_growth_stays_allowed(tmp_path: Path) -> None:
    program = (
        "import tensorflow as tf; tf.config.experimental.set_memory_growth('GPU', True); "
        "out = tf.limits"
    )
    assert capped(tmp_path, program, TENSORFLOW)[0] == [["GPU", [10_240]]]


def test_a_framework_of_another_form_runs_uncapped_and_says_so(tmp_path: Path) -> None:
    files = {"torch/__init__.py": "from torch import cuda", "torch/cuda/__init__.py": ""}
    out, said = capped(tmp_path, "import torch; out = 1", files)
    assert out == 1
    assert "slotq: no cap on GPU memory: AttributeError" in said


def test_torch_that_refuses_its_cap_still_initialises(tmp_path: Path) -> None:
    program = (
        "import torch; torch.cuda.set_per_process_memory_fraction = lambda part: 1 / 0; "
        "torch.cuda.init(); out = 1"
    )
    out, said = capped(tmp_path, program, TORCH)
    assert out == 1
    assert "slotq: no cap on GPU memory: ZeroDivisionError" in said


def test_a_users_own_sitecustomize_runs_too(tmp_path: Path) -> None:
    files = {"mine/sitecustomize.py": "import sys; sys.mine = __name__", **TORCH}
    program = (
        "import sitecustomize, torch; torch.cuda.init(); "
        "out = [sys.mine, sitecustomize.__file__.split('/')[-2], torch.cuda.fractions]"
    )
    assert capped(tmp_path, program, files, "mine")[0] == ["sitecustomize", "mine", [0.25]]


def test_a_users_own_sitecustomize_that_fails_takes_no_cap_away(tmp_path: Path) -> None:
    files = {"mine/sitecustomize.py": "1 / 0", **TORCH}
    out, said = capped(tmp_path, "import torch; out = len(torch.cuda.queued)", files, "mine")
    assert out == 1
    assert "ZeroDivisionError" in said


def test_a_job_keeps_its_own_pythonpath_behind_the_cap(tmp_path: Path) -> None:
    node = make_node(tmp_path)
    request = {"Environment": {"PYTHONPATH": "/mine", "SLOTQ_GPU_FRACTION": "1"}}
    document = {"attempt": "one", "job": "one", "number": 1, "gpus": [0], "gpu_part": 50}
    one = agent.Job(agent.Order({**document, "request": request}), node)
    one._place.make()
    part = one._bind()
    around = agent.Surroundings(
        one.order, one._place, node.settings, gpus=["0"], cpus=1, instance={}
    )
    variables = around.variables("", one._folder(), part)
    assert variables["PYTHONPATH"] == f"{one._place.root}/cap:/mine"
    assert variables["SLOTQ_GPU_FRACTION"] == "0.5"
    assert (one._place.root / "cap/sitecustomize.py").read_text() == agent.FRAMEWORK_CAP
    assert node._attempt(one)["gpu_bound"] == "framework"
