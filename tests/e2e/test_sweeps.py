"""Sweeps of real processes on the emulator: the process that submits and waits is killed half-way,
and the same program goes on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from slotq import QueueClient
from slotq.session.installed_sdk import sdk_version
from tests.emulators import emulator

PATIENCE = 180.0
"""Seconds for sixty processes."""

SDK_2 = sdk_version() == 2
"""With version 3 only the estimator differs, so a fifth of the trials do there."""
RATES = [0.05 * n for n in (range(1, 13) if SDK_2 else range(5, 9))]
SIZES = [1, 2, 3, 4, 5] if SDK_2 else [1, 2, 3]
TRIALS = len(RATES) * len(SIZES)

TRAIN = """
import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--rate", type=float)
parser.add_argument("--size", type=int)
given, _ = parser.parse_known_args()
print(f"loss={(given.rate - 0.35) ** 2 + 0.01 * abs(given.size - 2):.6f};", flush=True)
"""

PROGRAM = """
import boto3, sys
from slotq import QueueTrainingJobSession
{imports}

bucket, code = sys.argv[1:]
session = QueueTrainingJobSession(boto3.Session(), say=print)
{estimator}
sweep = session.sweep(
    estimator,
    {{"rate": {rates}, "size": {sizes}}},
    name="grid",
    max_parallel=8,
    objective="loss",
)
sweep.wait(poll=1, say=lambda line: print(line, flush=True))
print("BEST", sweep.best().name, flush=True)
"""

COMMON = """
    role="arn:aws:iam::123456789012:role/trainer",
    sagemaker_session=session,
"""

V2 = {
    "imports": "from sagemaker.estimator import Estimator",
    "estimator": f"""
estimator = Estimator(
    image_uri="123456789012.dkr.ecr.us-east-1.amazonaws.com/train:1",
    instance_count=1,
    instance_type="ml.p5.48xlarge",
    source_dir=code,
    entry_point="train.py",
    output_path=f"s3://{{bucket}}/models",
    metric_definitions=[{{"Name": "loss", "Regex": "loss=([0-9.]+);"}}],
{COMMON})
""",
}

V3 = {
    "imports": """
from sagemaker.core.shapes import MetricDefinition, OutputDataConfig
from sagemaker.core.training.configs import Compute, SourceCode
from sagemaker.train import ModelTrainer
import sagemaker.core.telemetry.telemetry_logging as telemetry
telemetry._send_telemetry_request = lambda *_, **__: None
""",
    "estimator": f"""
estimator = ModelTrainer(
    training_image="123456789012.dkr.ecr.us-east-1.amazonaws.com/train:1",
    compute=Compute(instance_type="ml.p5.48xlarge", instance_count=1),
    source_code=SourceCode(source_dir=code, entry_script="train.py"),
    output_data_config=OutputDataConfig(s3_output_path=f"s3://{{bucket}}/models"),
{COMMON}).with_metric_definitions(
    [MetricDefinition(name="loss", regex="loss=([0-9.]+);")]
)
""",
}


@pytest.fixture(scope="module")
def aws():
    with emulator("eight=8@ml.p5.48xlarge") as endpoint:
        yield endpoint


@pytest.fixture
def start(tmp_path: Path) -> Callable[..., subprocess.Popen[bytes]]:
    def start(*command: str, file: str = "out") -> subprocess.Popen[bytes]:
        out = (tmp_path / file).open("w")
        return subprocess.Popen(
            [sys.executable, *command], stdout=out, stderr=out, cwd=tmp_path, env={**os.environ}
        )

    return start


def until(condition: Callable[[], object], what: str) -> None:
    """Look once a second: each look reads every trial."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"after {PATIENCE:g} s: {what}"
        time.sleep(1)


def ended(name: str) -> int:
    try:
        states = QueueClient().groups.view(name).states
    except Exception:  # noqa: BLE001 - it is not submitted yet
        return 0
    return states.get("completed", 0)


@pytest.mark.timeout(400)
def test_many_processes_and_a_submitter_that_is_killed(aws, tmp_path, start):
    installed = V2 if SDK_2 else V3
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text(TRAIN)
    program = tmp_path / "sweep.py"
    program.write_text(PROGRAM.format(**installed, rates=RATES, sizes=SIZES))
    command = str(program), aws.bucket, str(tmp_path / "code")

    first = start(*command, file="first")
    until(lambda: ended("grid") >= TRIALS // 6 or first.poll() is not None, "nothing has completed")
    first.kill()
    first.wait()
    assert ended("grid") < TRIALS, (tmp_path / "first").read_text()

    again = start(*command, file="again")
    until(lambda: again.poll() is not None, "the second process does not end")
    said = (tmp_path / "again").read_text()
    assert again.returncode == 0, said

    queue = QueueClient()
    sweep = queue.sweeps.get("grid")
    trials = sweep.results()
    points = [*product(RATES, SIZES)]
    assert [trial.parameters for trial in trials] == [
        {"rate": rate, "size": size} for rate, size in points
    ]
    wanted = [round((rate - 0.35) ** 2 + 0.01 * abs(size - 2), 6) for rate, size in points]
    assert [trial.objective for trial in trials] == pytest.approx(wanted)
    best = sweep.best()
    assert best is not None
    assert best.parameters == {"rate": pytest.approx(0.35), "size": 2}
    assert f"BEST {best.name}" in said
    group = queue.groups.view("grid")
    assert group.states == {"completed": TRIALS}
    assert {job.attempts_begun for job in group.jobs} == {1}, "no trial ran twice"


HALVED = """
import json, os
from pathlib import Path

values = json.loads(Path("/opt/ml/input/config/hyperparameters.json").read_text())
kept = Path("/opt/ml/checkpoints/epochs")
done = int(kept.read_text()) if kept.exists() else 0
for epoch in range(done, int(values["epochs"])):
    kept.write_text(str(epoch + 1))
print(f"began={done};")
print(f"loss={abs(float(values['rate']) - 0.3) + 1 / int(values['epochs']):.6f};")
"""


@pytest.mark.timeout(400)
def test_a_halving_goes_on_after_its_submitter_is_killed(aws, tmp_path, start):
    metrics = [{"Name": name, "Regex": f"{name}=([0-9.]+);"} for name in ("loss", "began")]
    file: dict[str, Any] = {
        "name": "halved",
        "max_parallel": 8,
        "template": {
            "AlgorithmSpecification": {
                "TrainingImage": "train:1",
                "TrainingInputMode": "File",
                "ContainerEntrypoint": [sys.executable, str(tmp_path / "train.py")],
                "MetricDefinitions": metrics,
            },
            "RoleArn": "arn:aws:iam::123456789012:role/trainer",
            "OutputDataConfig": {"S3OutputPath": f"s3://{aws.bucket}/halved"},
            "CheckpointConfig": {"S3Uri": f"s3://{aws.bucket}/halved-checkpoints"},
            "ResourceConfig": {
                "InstanceType": "ml.p5.48xlarge",
                "InstanceCount": 1,
                "VolumeSizeInGB": 10,
            },
            "StoppingCondition": {"MaxRuntimeInSeconds": 600},
        },
        "space": {"rate": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]},
        "objective": {"metric": "loss"},
        "halving": {"parameter": "epochs", "rungs": [1, 2, 4], "keep": 3},
    }
    (tmp_path / "train.py").write_text(HALVED)
    (tmp_path / "sweep.json").write_text(json.dumps(file))
    command = "-m", "slotq", "sweep", "sweep.json", "--wait"

    first = start(*command, file="first")
    until(lambda: ended("halved") == 6 or first.poll() is not None, "the first round has not ended")
    first.kill()
    first.wait()
    again = start(*command, file="again")
    until(lambda: again.poll() is not None, "the second process does not end")
    assert again.returncode == 0, (tmp_path / "again").read_text()

    sweep = QueueClient().sweeps.get("halved")
    assert [len(each.jobs) for each in sweep.rounds] == [6, 2, 1]
    best = sweep.best()
    assert best is not None
    assert (best.name, best.parameters) == ("halved-round-3-3", {"rate": 0.3, "epochs": 4})
    began = [job.metrics["began"] for each in sweep.rounds for job in each.jobs]
    assert began == [0] * 6 + [1, 1, 2], "each round goes on from the checkpoints of the one before"
