"""Jobs with parts of GPUs on a node whose agent is a real process. NVIDIA's tools are scripts."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slotq_core.model.attempts import GpuBound
from slotq_core.wire.nodes.documents import AttemptPhase, EndReason, OrderedAttempt
from tests.functional.local.account import Account
from tests.functional.local.node_process import NodeProcess, attempt, node, python
from tests.unit.nodes.fake_mps import FakeMps, until_dead

FATAL = "[Server 77] Client {PID: 5} encountered a fatal GPU error\n"

CLIENT = """
import os, signal, time
if "part-stubborn" in os.environ["TRAINING_JOB_NAME"]:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
open(f"{CLIENTS}/{os.getpid()}", "w").close()
print("begun", os.environ["CUDA_VISIBLE_DEVICES"], flush=True)
while not os.path.exists(f"{CLIENTS}/break"):
    time.sleep(0.02)
raise SystemExit("CUDA error")
"""
"""A client of the server until it breaks."""

TORCH = """
import os
os.makedirs("torch/cuda")
open("torch/__init__.py", "w").write("from torch import cuda")
open("torch/cuda/__init__.py", "w").write('''
queued, most, used = [], [1.0], [0.0]
_lazy_call = queued.append
def set_per_process_memory_fraction(fraction):
    most[0] = fraction
def allocate(fraction):
    while queued:
        queued.pop()()
    used[0] += fraction
    if used[0] > most[0]:
        raise MemoryError(f"OutOfMemoryError: {used[0]} of {most[0]}")
''')
"""
"""A torch of the calls that the agent's cap uses: the real one needs a GPU to be out of memory."""


@pytest.fixture
def tools() -> Iterator[FakeMps]:
    with tempfile.TemporaryDirectory(prefix="slotq-tools-") as folder:
        Path(folder).chmod(0o755)
        yield FakeMps(Path(folder) / "tools")


@pytest.fixture
def agent(account: Account, tools: FakeMps) -> Iterator[NodeProcess]:
    with node(account, f"parts-{account.bucket[-8:]}") as made:
        path = f"{tools.folder}:{Path(python()).parent}:/usr/bin:/bin"
        made.start(SLOTQ_NODE_GPUS="", PATH=path)
        made.until_ready()
        yield made


def client(
    account: Account, tools: FakeMps, name: str, part: int | None, gpu: int = 0, **more: Any
) -> OrderedAttempt:
    source = CLIENT.replace("{CLIENTS}", f"{tools.folder}/clients")
    return attempt(account, name, source, gpus=(gpu,), gpu_part=part, **more)


def until_begun(account: Account, *names: str) -> None:
    account.until(lambda: all(map(account.said, names)), f"{names} to begin")


def hold_all(agent: NodeProcess, account: Account, *orders: OrderedAttempt) -> None:
    """Let attempts begin."""
    agent.order(*orders)
    until_begun(account, *(one.attempt for one in orders))


def test_parts_of_a_gpu_share_its_daemon_until_the_last_has_left(
    agent: NodeProcess, account: Account, tools: FakeMps
) -> None:
    a, b = client(account, tools, "part-half", 50), client(account, tools, "other-half", 50)
    late = client(account, tools, "part-late", 25)
    whole = client(account, tools, "part-whole", None, 1)
    hold_all(agent, account, a, b, whole)
    agent.order(a, b, late, whole)
    bounds = {
        "part-half": GpuBound.MPS,
        "other-half": GpuBound.MPS,
        "part-whole": GpuBound.NONE,
        "part-late": GpuBound.NONE,
    }
    report = agent.until_report(
        lambda report: {one.attempt: one.gpu_bound for one in report.attempts} == bounds, "bounds"
    )
    assert not account.said("part-late")
    words = "-f -multiuser-server" if report.uids else "-f"
    assert [started[:2] for started in tools.started()] == [(words, "GPU-a")]
    assert account.said("part-half") == ["begun GPU-a"]
    assert account.said("part-whole") == ["begun 1"]
    agent.order(b, late, whole)
    until_begun(account, "part-late")
    assert len(tools.started()) == 1
    agent.order()
    ((_, _, daemon, server),) = tools.started()
    until_dead(daemon, server)


def test_a_client_is_ended_by_the_server_before_it_is_killed(
    agent: NodeProcess, account: Account, tools: FakeMps
) -> None:
    a = client(account, tools, "part-stubborn", 50, grace_s=1)
    b = client(account, tools, "part-other", 50)
    hold_all(agent, account, a, b)
    agent.order(b)
    agent.until_attempt("part-stubborn")
    ((_, _, _, server),) = tools.started()
    (asked,) = tools.asked("terminate_client")
    assert asked.startswith(f"terminate_client {server} ")
    agent.until_attempt("part-other", "running")


def test_a_daemon_that_hangs_delays_no_kill_for_long(
    agent: NodeProcess, account: Account, tools: FakeMps
) -> None:
    a = client(account, tools, "part-stubborn-too", 50, grace_s=1)
    b = client(account, tools, "other-too", 50)
    hold_all(agent, account, a, b)
    tools.hang()
    agent.order(b)
    agent.until_attempt("part-stubborn-too")
    assert len(tools.asked("terminate_client")) == 1
    agent.order()
    ((_, _, daemon, server),) = tools.started()
    until_dead(daemon, server)


@pytest.mark.parametrize("fault", ["logged", "dead"])
def test_a_fault_of_the_server_is_no_jobs_own(
    agent: NodeProcess, account: Account, tools: FakeMps, fault: str
) -> None:
    names = [f"{name}-{fault}" for name in ("culprit", "victim", "elsewhere")]
    a, b, other = (
        client(account, tools, name, 50, gpu) for name, gpu in zip(names, (0, 0, 1), strict=True)
    )
    hold_all(agent, account, a, b, other)
    if fault == "dead":
        os.kill(next(daemon for _, gpu, daemon, _ in tools.started() if gpu == "GPU-a"), 9)
    else:
        with (agent.work / "mps/0/log/server.log").open("a") as log:
            log.write(FATAL)
    time.sleep(0.3)
    (tools.folder / "clients/break").touch()
    ended = [agent.until_attempt(name) for name in names]
    assert {one.state for one in ended} == {AttemptPhase.FAILED}
    shared = EndReason.SHARED_FAULT
    assert [one.why for one in ended] == [shared, shared, EndReason.ITSELF]
    assert "on GPU 0, of one of the jobs that share it" in ended[1].failure


def test_a_part_that_asks_for_too_much_fails_alone(account: Account, tools: FakeMps) -> None:
    """Pretended GPUs are held by the framework, and so are those of a node of every project."""
    (tools.folder / "nvidia-cuda-mps-control").unlink()
    ask = TORCH + "import torch; torch.cuda.allocate(ASKED); print('has it')"
    with node(account, "capped") as agent:
        agent.start(SLOTQ_NODE_GPUS="pretend:1x16384")
        agent.until_ready()
        told = "import json, os; print(json.dumps({k: v for k, v in os.environ.items()}))"
        orders = [
            attempt(account, "part-modest", ask.replace("ASKED", "0.25"), gpus=(0,), gpu_part=25),
            attempt(account, "part-greedy", ask.replace("ASKED", "0.3"), gpus=(0,), gpu_part=25),
            attempt(account, "part-told", told, gpus=(0,), gpu_part=50),
        ]
        agent.order(*orders)
        ended = [agent.until_attempt(one.attempt) for one in orders]
    assert [one.state for one in ended] == ["completed", "failed", "completed"]
    assert account.said("part-greedy")[-1] == "MemoryError: OutOfMemoryError: 0.3 of 0.25"
    assert {one.gpu_bound for one in ended} == {GpuBound.FRAMEWORK}
    variables = json.loads(account.said("part-told")[0])
    names = ("SLOTQ_GPU_FRACTION", "SLOTQ_GPU_MEMORY", "XLA_PYTHON_CLIENT_MEM_FRACTION")
    assert [variables[name] for name in names] == ["0.5", str(8 << 30), "0.5"]
