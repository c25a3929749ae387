"""SageMaker's SDK (v2) with the training plane alone: what `fit()` needs of SageMaker."""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
import pytest

from tests.functional.local.account import Account

sagemaker = pytest.importorskip("sagemaker")

TRAIN = """
import argparse, os, pathlib, time
read = argparse.ArgumentParser()
read.add_argument("--steps", type=int)
read.add_argument("--pause-at", type=int, default=0)
asked = read.parse_args()
ml = pathlib.Path(os.environ["SM_MODEL_DIR"]).parent
file = ml / "checkpoints/step"
step = int(file.read_text()) if file.exists() else 0
print("from step", step, flush=True)
print("data", (pathlib.Path(os.environ["SM_CHANNEL_TRAINING"]) / "x.csv").read_text(), flush=True)
while step < asked.steps:
    step += 1
    file.write_text(str(step))
    if step == asked.pause_at and not os.environ["TRAINING_JOB_NAME"].endswith("again"):
        print("waiting", flush=True)
        time.sleep(100)
(ml / "model/weights").write_text(f"after {step}")
"""
ROLE = "arn:aws:iam::123456789012:role/slotq-local"


@pytest.fixture(autouse=True)
def quick_sdk(aws: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    """No telemetry; and not by the SDK's settings file, which it checks anew, whole, for each of an
    estimator's arguments: seconds of CPU. And its pauses of five seconds cut short."""
    from sagemaker.telemetry import telemetry_logging

    monkeypatch.delenv("SAGEMAKER_USER_CONFIG_OVERRIDE")
    monkeypatch.setattr(telemetry_logging, "_requests_helper", lambda *_: None)
    hasty = SimpleNamespace(time=time.time, sleep=lambda _: time.sleep(0.05))
    monkeypatch.setattr(sagemaker.session, "time", hasty)


def session(aws: Account) -> Any:
    return sagemaker.Session(boto_session=boto3.Session(), default_bucket=aws.bucket)


def pytorch(aws: Account, folder: Path, **more: Any) -> Any:
    from sagemaker.pytorch import PyTorch

    (folder / "train.py").write_text(TRAIN)
    return PyTorch(
        entry_point="train.py",
        source_dir=str(folder),
        role=ROLE,
        framework_version="2.3",
        py_version="py311",
        instance_count=1,
        instance_type="ml.m5.large",
        sagemaker_session=session(aws),
        checkpoint_s3_uri=f"s3://{aws.bucket}/sdk/checkpoints",
        disable_profiler=True,
        debugger_hook_config=False,
        **more,
    )


def test_fit_stop_and_resume_from_the_checkpoint(
    aws: Account, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    aws.s3.put_object(Bucket=aws.bucket, Key="sdk/data/x.csv", Body=b"1,2")
    data = {"training": f"s3://{aws.bucket}/sdk/data"}
    parameters = {"steps": 10, "pause-at": 4}
    first = pytorch(aws, tmp_path, hyperparameters=parameters)
    first.fit(data, job_name="sdk-fit", wait=False)
    aws.wait_for_line("sdk-fit", "waiting")
    first.latest_training_job.stop()
    assert aws.ended("sdk-fit")["TrainingJobStatus"] == "Stopped"

    second = pytorch(aws, tmp_path, hyperparameters=parameters)
    second.fit(data, job_name="sdk-fit-again", wait=False)
    # The SDK looks every 30 seconds, so wait here until it can find the end at once.
    aws.ended("sdk-fit-again")
    second.latest_training_job.wait()
    assert aws.said("sdk-fit-again") == ["from step 4", "data 1,2"]
    assert second.model_data == f"s3://{aws.bucket}/sdk-fit-again/output/model.tar.gz"
    assert aws.unpacked("sdk-fit-again/output/model.tar.gz") == {"weights": b"after 10"}
    said = capsys.readouterr().out
    assert "from step 4" in said
    assert "Completed - Training job completed" in said or "Training seconds" in said

    attached = type(second).attach("sdk-fit-again", sagemaker_session=session(aws))
    assert attached.hyperparameters()["steps"] == json.dumps(10)
    assert attached.model_data == second.model_data


def test_a_failure_raises_the_sdks_exception(aws: Account, tmp_path: Path) -> None:
    from sagemaker.estimator import Estimator

    (tmp_path / "broken.py").write_text("raise SystemExit('no luck')")
    estimator = Estimator(
        image_uri="123456789012.dkr.ecr.us-east-1.amazonaws.com/mine:1",
        entry_point="broken.py",
        source_dir=str(tmp_path),
        role=ROLE,
        instance_count=1,
        instance_type="ml.m5.large",
        sagemaker_session=session(aws),
    )
    estimator.fit(job_name="sdk-broken", wait=False)
    aws.ended("sdk-broken")
    with pytest.raises(sagemaker.exceptions.UnexpectedStatusException, match="no luck"):
        estimator.latest_training_job.wait()
