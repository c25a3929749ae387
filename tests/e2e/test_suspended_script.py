"""A script with slotq_training.py, shipped by `slotq submit`: evicted, saved, resumed."""

from __future__ import annotations

import os
from urllib.request import Request, urlopen

import boto3

from slotq import QueueClient
from slotq.local.keys import TOKEN_HEADER
from tests.e2e.test_commands import request, slotq
from tests.e2e.waiting import until

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
    bucket = "sagemaker-us-east-1-123456789012"
    settings = ["--image", "none", "--role", "arn:aws:iam::123456789012:role/trainer"]
    settings += ["--output", f"s3://{bucket}/runs", "--source", str(tmp_path)]
    python = ("sh", "-c", "exec python train.py")
    sent = slotq("submit", "--name", "first", *settings, "--", *python)
    assert sent.exit_code == 0, sent.output
    queue, s3 = QueueClient(), boto3.client("s3")
    prefix = "runs/first/checkpoints/"

    def kept():
        found = s3.list_objects_v2(Bucket=bucket, Prefix=prefix).get("Contents", ())
        return {each["Key"].removeprefix(prefix) for each in found}

    until(lambda: "_slotq/first/report.json" in kept(), "no report in S3")
    until(lambda: queue.job("first").progress is not None, "GET shows no progress")
    progress = queue.job("first").progress
    assert progress is not None
    assert progress.step and (progress.of, progress.metrics) == (20000, {"loss": 0.5})
    listed = {job.name: job for job in queue.jobs()}
    assert listed["first"].progress is not None
    until(lambda: queue.job("first").progress.eta_seconds, "the pace is not known")
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
    until(lambda: queue.job("first").state == "completed", "it does not complete")
    log = slotq("logs", "first").output
    begins = [line.rsplit(None, 1)[-1] for line in log.splitlines() if "begins at" in line]
    assert len(begins) == 2, log
    assert int(begins[1]) > 0, log
    assert queue.job("urgent").state == "completed"
    done = queue.job("first")
    assert done.progress is None
    evicted = done.attempts[0]
    assert evicted.saved is not None and evicted.saved.step == int(begins[1])
    assert evicted.resumption.startswith(f"resumes from step {int(begins[1]):,}, saved ")
    assert f"resumes from step {int(begins[1]):,}" in slotq("history", "first").output.replace(
        "\n", " "
    )
