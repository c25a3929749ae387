"""A client that hangs counts as failed, and the others go on without it. With real processes."""

from __future__ import annotations

import json
import re
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from click.testing import CliRunner

from slotq import QueueClient
from slotq.cli.exits import ExitCode
from slotq.cli.main import cli
from slotq.local.endpoint import Endpoint
from slotq.local.keys import TOKEN_HEADER
from slotq_core.wire.groups.group_submission import LEAST_HEARTBEAT
from tests.e2e.waiting import until
from tests.emulators import emulator

BUCKET = "federated"
META = {
    "name": "silence",
    "deploy_map": {"app": ["@ALL"]},
    "min_clients": 2,
    "heartbeat_seconds": LEAST_HEARTBEAT,
}
SCRIPT = """
import os, time
import slotq_training as slotq

site = os.environ["SLOTQ_SITE"]
slotq.rendezvous()
for step in range(1, 6000):
    slotq.report(step)
    if site == "north":
        time.sleep(600)  # Its data source does not answer.
    if os.path.exists(os.environ["ENOUGH"]):
        break
    time.sleep(0.1)
"""


@pytest.fixture(scope="module")
def aws() -> Iterator[Endpoint]:
    with emulator("server=1,north=1,south=1,east=1") as endpoint:
        boto3.Session().client("s3").create_bucket(Bucket=BUCKET)
        yield endpoint


def folder(enough: Path) -> Path:
    job = {
        "AlgorithmSpecification": {
            "TrainingImage": "train:1",
            "ContainerEntrypoint": ["python3", "train.py"],
        },
        "RoleArn": "arn:aws:iam::123456789012:role/trainer",
        "OutputDataConfig": {"S3OutputPath": f"s3://{BUCKET}/out"},
        "Environment": {"ENOUGH": str(enough)},
    }
    made = enough.parent / "silence"
    (made / "app" / "source").mkdir(parents=True)
    (made / "meta.json").write_text(json.dumps(META))
    (made / "app" / "job.json").write_text(json.dumps(job))
    (made / "app" / "source" / "train.py").write_text(SCRIPT)
    return made


def tick(aws: Endpoint) -> None:
    """As the emulator does each minute."""
    headers = {TOKEN_HEADER: aws.keys.token}
    asked = urllib.request.Request(f"{aws.url}/_slotq/tick", method="POST", headers=headers)
    with urllib.request.urlopen(asked, timeout=30) as answer:
        assert answer.status == 200


def test_a_client_that_hangs_is_stopped_and_the_others_complete(
    aws: Endpoint, tmp_path: Path
) -> None:
    queue, enough = QueueClient(), tmp_path / "enough"
    done = CliRunner().invoke(cli, ["submit", str(folder(enough))])
    assert done.exit_code == ExitCode.OK, done.output

    def states() -> dict[str, str]:
        return {
            job.name.removeprefix("silence-"): job.state
            for job in queue.groups.view("silence").jobs
        }

    until(lambda: {*states().values()} == {"running"}, "they do not run")
    until(lambda: queue.jobs.view("silence-north").progress, "north has reported nothing")
    tick(aws)
    assert {*states().values()} == {"running"}
    time.sleep(LEAST_HEARTBEAT + 1)  # The processes keep the real time.
    tick(aws)
    until(lambda: states()["north"] == "failed", "nobody misses north")
    north = queue.jobs.view("silence-north")
    silent = re.search(r"its script has reported nothing for (\d+) s", north.message)
    assert silent and int(silent[1]) >= LEAST_HEARTBEAT, north.message
    others = {"server": "running", "south": "running", "east": "running"}
    assert states() == {**others, "north": "failed"}

    enough.touch()
    until(lambda: queue.groups.view("silence").state == "completed", "the others do not complete")
    assert states() == {**dict.fromkeys(others, "completed"), "north": "failed"}
