"""A script with slotq_training.py, shipped by `slotq submit`: evicted, saved, resumed."""

from __future__ import annotations

import os
from urllib.request import Request, urlopen

import boto3

from slotq import QueueClient
from slotq.local.keys import TOKEN_HEADER
from slotq_core.timestamps import from_iso
from tests.e2e.test_commands import request, slotq
from tests.e2e.waiting import until

BUCKET = "sagemaker-us-east-1-123456789012"
SCRIPT = """
import time
import slotq_training as slotq
from slotq_training import checkpoint

ckpt = checkpoint.manager({"steps": 0}, every_epoch=False)
print("attempt", slotq.attempt(), "begins at", ckpt.start_step, flush=True)
for epoch in ckpt.epochs(1):
    for step in ckpt.batches(range(10000 if slotq.attempt() == 1 else ckpt.start_step + 3)):
        time.sleep(0.02)
        slotq.report(step + 1, of=20000, loss=0.5)
"""


def test_an_evicted_script_saves_and_goes_on_where_it_was(aws, tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT)
    settings = ["--image", "none", "--role", "arn:aws:iam::123456789012:role/trainer"]
    settings += ["--output", f"s3://{BUCKET}/runs", "--source", str(tmp_path)]
    python = ("sh", "-c", "exec python train.py")
    sent = slotq("submit", "--name", "first", *settings, "--", *python)
    assert sent.exit_code == 0, sent.output
    queue, s3 = QueueClient(), boto3.client("s3")
    prefix = "runs/first/checkpoints/"

    def kept():
        found = s3.list_objects_v2(Bucket=BUCKET, Prefix=prefix).get("Contents", ())
        return {each["Key"].removeprefix(prefix) for each in found}

    until(lambda: "_slotq/first/report.json" in kept(), "no report in S3")
    until(lambda: queue.jobs.view("first").progress is not None, "GET shows no progress")
    progress = queue.jobs.view("first").progress
    assert progress is not None
    assert progress.step and (progress.of, progress.metrics) == (20000, {"loss": 0.5})
    listed = {job.name: job for job in queue.jobs()}
    assert listed["first"].progress is not None
    until(lambda: queue.jobs.view("first").progress.eta_seconds, "the pace is not known")
    knob = Request(
        f"{os.environ['AWS_ENDPOINT_URL']}/_slotq/knobs",
        data=b'{"grace_seconds": 5}',
        headers={TOKEN_HEADER: aws.keys.token},
    )
    with urlopen(knob) as answer:  # SIGKILL comes sooner than on SageMaker.
        assert answer.status == 200
    urgent = request("urgent", "true") | {"Tags": [{"Key": "priority", "Value": "5"}]}
    queue.submit(urgent)
    until(lambda: any(name.startswith("slot-") for name in kept()), "no checkpoint in S3")
    until(lambda: queue.jobs.view("first").state == "completed", "it does not complete")
    log = slotq("logs", "first").output
    begins = [line.rsplit(None, 1)[-1] for line in log.splitlines() if "begins at" in line]
    assert len(begins) == 2, log
    assert int(begins[1]) > 0, log
    assert queue.jobs.view("urgent").state == "completed"
    done = queue.jobs.view("first")
    assert done.progress is None
    evicted = done.attempts[0]
    assert evicted.saved is not None and evicted.saved.step == int(begins[1])
    assert evicted.resumption.startswith(f"resumes from step {int(begins[1]):,}, saved ")
    assert f"resumes from step {int(begins[1]):,}" in slotq("history", "first").output.replace(
        "\n", " "
    )


IGNORES = """
import time
print("runs", flush=True)
time.sleep({seconds})
"""


def _submitted(name, script, tmp_path, *more):
    (tmp_path / "train.py").write_text(script)
    settings = ["--image", "none", "--role", "arn:aws:iam::123456789012:role/trainer"]
    settings += ["--output", f"s3://{BUCKET}/runs", "--source", str(tmp_path), *more]
    sent = slotq("submit", "--name", name, *settings, "--", "sh", "-c", "exec python train.py")
    assert sent.exit_code == 0, sent.output


def _set_grace(seconds):
    changed = slotq("pools", "set", "one", "--suspend-grace", str(seconds))
    assert changed.exit_code == 0, changed.output


def test_a_script_that_is_asked_releases_its_slots_and_resumes(aws, tmp_path):
    """Long before its grace is over, and with no StopTrainingJob."""
    _set_grace(120)
    _submitted("heeds", SCRIPT, tmp_path)
    queue = QueueClient()
    log = "attempt 1 begins"
    until(lambda: log in slotq("logs", "heeds").output, "it does not begin")
    queue.submit(request("hurries", "true") | {"Tags": [{"Key": "priority", "Value": "5"}]})
    until(lambda: queue.jobs.view("hurries").state == "completed", "it does not start")
    until(lambda: queue.jobs.view("heeds").state == "completed", "it does not complete")
    first = boto3.client("sagemaker").describe_training_job(TrainingJobName="heeds")
    assert first["TrainingJobStatus"] == "Failed"
    assert "slotq-released" in first["FailureReason"]
    assert not {each["Status"] for each in first["SecondaryStatusTransitions"]} & {"Stopping"}
    lines = slotq("logs", "heeds").output.splitlines()
    begins = [int(line.rsplit(None, 1)[-1]) for line in lines if "begins at" in line]
    assert len(begins) == 2
    assert begins[1] > 0
    seen = queue.jobs.view("heeds")
    assert (seen.evictions, seen.attempts[0].outcome) == (1, "evicted")


def test_a_script_that_ignores_it_is_stopped_when_its_grace_is_over(aws, tmp_path):
    _set_grace(4)
    _submitted("ignores", IGNORES.format(seconds=600), tmp_path)
    queue = QueueClient()
    until(lambda: "runs" in slotq("logs", "ignores").output, "it does not begin")
    queue.submit(request("waits", "true") | {"Tags": [{"Key": "priority", "Value": "5"}]})
    until(lambda: queue.jobs.view("ignores").state == "stopping", "it is not evicted")
    sagemaker = boto3.client("sagemaker")

    def described():
        return sagemaker.describe_training_job(TrainingJobName="ignores")

    asked = from_iso(queue.jobs.view("ignores").changed_at) / 1000
    until(lambda: described()["TrainingJobStatus"] != "InProgress", "it is not stopped")
    (stopping,) = [
        each["StartTime"].timestamp()
        for each in described()["SecondaryStatusTransitions"]
        if each["Status"] == "Stopping"
    ]
    assert stopping >= asked + 4 - 1, "it has its grace; SageMaker's times may be whole seconds"
    until(lambda: queue.jobs.view("waits").state == "completed", "it does not start")
    queue.jobs.cancel("ignores")
