"""Which GPUs the emulator gives to nodes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from slotq.local.container.node import NodeGpus, is_node
from slotq.local.container.transfer import JobInputError


def request(kind: str = "ml.g5.12xlarge", **environment: str) -> dict[str, Any]:
    return {"ResourceConfig": {"InstanceType": kind}, "Environment": environment}


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with six GPUs, as NVIDIA's tool shows them."""
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\nseq 0 5\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tool


def test_a_node_is_a_training_job_with_a_nodes_name() -> None:
    assert is_node(request(SLOTQ_NODE="one"))
    assert not is_node(request(SLOTQ_ATTEMPT="1"))
    assert not is_node({"ResourceConfig": {}})


def test_what_the_queue_says_counts_most(machine: Path) -> None:
    assert NodeGpus(8).take("one", request(SLOTQ_NODE_GPUS="4,5")) == "4,5"


def test_pretended_gpus_are_each_nodes_own(machine: Path) -> None:
    gpus = NodeGpus(8)
    assert [gpus.take(name, request()) for name in ("one", "two")] == ["pretend:8x22528"] * 2


@pytest.mark.parametrize(
    ("kind", "pretended"),
    [("ml.g5.12xlarge", "4x22528"), ("ml.m5.large", "0x16384"), ("ml.future", "0x16384")],
)
def test_a_machine_without_gpus_pretends_those_of_the_instance_type(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str, pretended: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert NodeGpus().take("one", request(kind)) == f"pretend:{pretended}"


def test_a_gpu_of_this_machine_is_of_one_node_at_a_time(machine: Path) -> None:
    gpus = NodeGpus()
    assert gpus.take("one", request()) == "0,1,2,3"
    with pytest.raises(JobInputError, match="needs 4 GPUs, and of this machine's 6 are 2 free"):
        gpus.take("two", request())
    assert gpus.take("three", request("ml.g5.xlarge")) == "4"
    gpus.give_back("one")
    assert gpus.take("two", request()) == "0,1,2,3"
    assert gpus.take("four", request("ml.m5.large")) == "5"
    with pytest.raises(JobInputError, match="needs 1 GPUs"):
        gpus.take("five", request("ml.m5.large"))
