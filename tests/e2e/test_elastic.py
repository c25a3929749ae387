"""An elastic gang whose members the queue evicts one by one and lets join again.

The members run the script of docs/elastic-scripts.md, as training jobs of the emulator.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from slotq import QueueClient
from slotq.demo.environment import with_variables
from slotq.demo.world import settings
from tests import emulators
from tests.functional.local.account import Account
from tests.functional.training.breathing import PLAIN, SHARDS, STEPS, slowly
from tests.functional.training.processes import FILE

RINGS = ("ring-1", "ring-2", "ring-3", "ring-4")
WORK = "time.sleep(0.01)  # your training"
SLEEPS = "import time; time.sleep(3600)"


@pytest.fixture
def aws(tmp_path: Path) -> Iterator[Account]:
    folder = tmp_path / "aws"
    options = ("--pool", "main=4@ml.m5.large;suspend_grace=60", "--pass-sigterm")
    with emulators.held(folder, *options) as account:
        variables = settings(account.endpoint, folder)
        with with_variables(variables, instead_of=("AWS_", "SLOTQ_")):
            yield account
    log = (folder / "emulator.log").read_text()
    assert "Traceback" not in log, log


def hold(aws: Account, *names: str) -> None:
    """Take a slot for each of these jobs, which outrank the gang."""
    for name in names:
        asked = aws.request(name, SLEEPS)
        asked["Tags"] = [{"Key": "priority", "Value": "9"}]
        asked["StoppingCondition"] = {"MaxRuntimeInSeconds": 3600}
        QueueClient().submit(asked)


def let_go(*names: str) -> None:
    for name in names:
        QueueClient().jobs.cancel(name)


def member(aws: Account, name: str, enough: Path) -> dict[str, object]:
    files = {"train.py": slowly(PLAIN, WORK), "slotq_training.py": FILE.read_text()}
    asked = aws.request(
        name,
        parameters={
            "sagemaker_program": "train.py",
            "sagemaker_submit_directory": aws.upload_source(f"{name}-files", files),
        },
    )
    asked["CheckpointConfig"] = {"S3Uri": f"s3://{aws.bucket}/checkpoints/{name}"}
    asked["StoppingCondition"] = {"MaxRuntimeInSeconds": 3600}
    asked["Environment"] = {"ENOUGH": str(enough)}
    return asked


def last_world(aws: Account, name: str) -> tuple[int, int]:
    """The generation that a member was in last, and its size."""
    queue = QueueClient()
    attempts = queue.jobs.view(name).attempts
    lines = aws.said(attempts[-1].training_job) if attempts else []
    found = [re.findall(r"World\(generation=(\d+).*world_size=(\d+)\)", line) for line in lines]
    worlds = [(int(number), int(size)) for each in found for number, size in each]
    return worlds[-1] if worlds else (0, 0)


def meet(aws: Account, *names: str) -> int:
    """Wait until these members, and no others, are in one generation. Returns its number."""

    def met() -> int:
        worlds = {last_world(aws, name) for name in names}
        (number, size), *more = worlds
        return number if not more and size == len(names) else 0

    number: int = aws.until(met, f"the meeting of {names}")
    return number


@pytest.mark.timeout(600)
def test_members_are_evicted_one_by_one_and_join_again(aws: Account, tmp_path: Path) -> None:
    queue, enough = QueueClient(), tmp_path / "enough"
    hold(aws, "first", "second")
    aws.until(lambda: queue.jobs.view("second").state == "running", "the jobs before the gang")
    members = [member(aws, name, enough) for name in RINGS]
    queue.groups.submit_gang("ring", members, min_members=1, elastic=True)
    generations = [meet(aws, *RINGS[:2])]
    let_go("first", "second")
    generations.append(meet(aws, *RINGS))
    hold(aws, "third", "fourth", "fifth")
    generations.append(meet(aws, RINGS[0]))
    assert [queue.jobs.view(name).state for name in RINGS] == ["running", *["preempted"] * 3]
    let_go("third", "fourth", "fifth")
    generations.append(meet(aws, *RINGS))
    enough.touch()
    aws.until(lambda: queue.groups.view("ring").state == "completed", "the gang's end")

    assert generations == sorted(set(generations))
    jobs = [queue.jobs.view(name) for name in RINGS]
    assert [job.evictions for job in jobs] == [0, 1, 1, 1]
    last = [json.loads(aws.said(job.attempts[-1].training_job)[-1]) for job in jobs]
    assert last == last[:1] * 4
    assert (last[0]["step"], last[0]["seen"]) == (STEPS, STEPS * SHARDS)
