"""Which GPUs the emulator gives to nodes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from slotq.local.container.node import NodeGpus, is_node
from slotq.local.container.transfer import JobInputError
from slotq_core.adapters.nodes import documents
from slotq_core.adapters.sagemaker.node_requests import node_request
from slotq_core.adapters.sagemaker.service import create_request
from slotq_core.model.pools import NodeRules
from tests.unit.sagemaker import adapter_world, test_create_node


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


def launched(secret: str) -> dict[str, Any]:
    """The request of a node's training job."""
    rules, asked = NodeRules(gpus=4), adapter_world.request()
    of_queue = test_create_node.node(token=secret)
    launch = documents.launched(of_queue, rules, bucket="b", route="", lease=60)
    return node_request(asked, of_queue, launch, instance_type="ml.g5.12xlarge", queue="mine")


def test_a_node_is_what_the_queue_starts_as_one() -> None:
    assert is_node(launched("secret"))
    assert not is_node({"ResourceConfig": {}})


def test_no_users_job_is_a_node_whatever_it_asks_for() -> None:
    """Not even with the variables and the tags of a node that runs."""
    real = launched("secret")
    asked = adapter_world.request(Environment=real["Environment"], Tags=real["Tags"])
    job, attempt = adapter_world.job(), adapter_world.attempt()
    assert not is_node(create_request(asked, job, attempt, queue="mine"))
    of_attempt = {**real["Environment"], "SLOTQ_NODE_TOKEN": attempt.token}
    asked = adapter_world.request(Environment=of_attempt, Tags=real["Tags"])
    assert not is_node(create_request(asked, job, attempt, queue="mine"))


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
