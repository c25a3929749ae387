"""W&B Launch and TorchX under `slotq exec`."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from slotq import QueueClient
from tests.e2e.test_boto3 import ENDLESS, STOPPED_ONCE, request
from tests.e2e.waiting import PATIENCE, until
from tests.ecosystem.airflow_runs import ENVIRONMENTS, SLOTQ_EXEC
from tests.ecosystem.test_airflow import evicted_once, lines_of

BIN = ENVIRONMENTS / "launchers" / "bin"
QUIET = "SchemaVersion: '1.0'\nSageMaker: {PythonSDK: {Modules: {TelemetryOptOut: true}}}\n"
SCRIPT = """
import argparse, os, pathlib
words = argparse.ArgumentParser()
words.add_argument("--steps", type=int)
for step in range(words.parse_args().steps):
    print("step", step + 1, flush=True)
pathlib.Path(os.environ["SM_MODEL_DIR"], "result").write_text("done")
"""

pytestmark = pytest.mark.ecosystem


@pytest.fixture
def queue():
    return QueueClient()


def begin(*words: Any, folder: Path | None = None, **variables: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*SLOTQ_EXEC, *words],
        env={**os.environ, **variables},
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def printed(process: subprocess.Popen[str]) -> str:
    said, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, said
    return said


def launch(wanted: dict[str, Any], what: str) -> subprocess.Popen[str]:
    script = Path(__file__).parent / "launch_agent.py"
    return begin(BIN / "python", script, json.dumps(wanted), what)


def test_a_run_of_wandb_launch_survives_an_eviction_and_reads_the_last_attempts_log(aws, queue):
    begun = launch(request(aws, "launched", STOPPED_ONCE), "wait")
    evicted_once(aws, queue, "launched")
    found = json.loads(printed(begun).rpartition("RETURNED ")[2])
    job = queue.jobs.view("launched")
    assert (found["state"], job.state, job.evictions) == ("finished", "completed", 1)
    lines = [line.partition(":")[2] for line in found["log"].splitlines()]
    whole = lines_of(aws, queue, "launched")
    second = [n for n, line in enumerate(whole) if line.startswith("goes on from")][1]
    assert lines == whole[second:]


def test_cancelling_a_run_of_wandb_launch_cancels_the_job(aws, queue):
    found = json.loads(
        printed(launch(request(aws, "stopped", ENDLESS), "cancel")).rpartition("RETURNED ")[2]
    )
    assert found["state"] == "finished", "SageMaker's Stopped"
    assert queue.jobs.view("stopped").state == "cancelled"


def test_torchx_runs_reads_the_state_and_cancels(aws, queue, tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "quiet.yaml").write_text(QUIET)
    options = {
        "role": "arn:aws:iam::123456789012:role/slotq-local",
        "instance_type": "ml.p5.48xlarge",
        "source_dir": str(tmp_path),
    }
    said = printed(
        begin(
            BIN / "torchx", "run", "--scheduler", "aws_sagemaker", "--scheduler_args",
            ",".join(f"{key}={value}" for key, value in options.items()), "--workspace", "",
            "utils.python", "--name", "train", "--image",
            "123456789012.dkr.ecr.us-east-1.amazonaws.com/train:1", "--script", "train.py",
            "--", "--steps=3",
            folder=tmp_path,
            SAGEMAKER_USER_CONFIG_OVERRIDE=str(tmp_path / "quiet.yaml"),
        )
    )  # fmt: skip
    handle = next(line for line in said.splitlines() if line.startswith("aws_sagemaker://"))
    name = handle.rpartition("/")[2]
    until(lambda: queue.jobs.view(name).state == "completed", f"{name} has not completed")
    assert lines_of(aws, queue, name)[-3:] == ["step 1", "step 2", "step 3"]
    assert "SUCCEEDED" in printed(begin(BIN / "torchx", "status", handle))
    queue.submit(request(aws, "endless", ENDLESS))
    other = handle.replace(name, "endless")
    printed(begin(BIN / "torchx", "cancel", other))
    until(lambda: queue.jobs.view("endless").state == "cancelled", "it was not cancelled")
    assert "CANCELLED" in printed(begin(BIN / "torchx", "status", other))
