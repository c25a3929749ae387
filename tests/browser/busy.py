"""A busy queue behind `slotq ui`, of which the pictures in the documentation are taken."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from slotq.client import QueueClient
from tests.browser.story import tags
from tests.functional.local.account import Account
from tests.functional.local.conftest import SLOTQ, slotq, start

TRAINS = """\
import sys, time, slotq_training
first, of = int(sys.argv[sys.argv.index("--first") + 1]), 4800
for step in range(first, of):
    slotq_training.report(step, of=of, loss=round(2 / (1 + step / 900), 3))
    print(f"step {step:,} loss {2 / (1 + step / 900):.3f}", flush=True)
    time.sleep(1)
"""
HOURS = {"MaxRuntimeInSeconds": 6 * 3600}
P5, G6 = "ml.p5.48xlarge", "ml.g6.12xlarge"


@dataclass(frozen=True)
class Training:
    name: str
    kind: str
    slots: int
    priority: int
    first: int = 0
    """The step that it begins with, so that jobs are not all equally far."""


RUN = [
    Training("llama-finetune", P5, 2, 5, 3600),
    Training("vit-large", P5, 1, 2, 1400),
    Training("whisper-eval", G6, 1, 3, 900),
    Training("rerank-v4", G6, 1, 1, 2600),
]
WAIT = [
    Training("clip-train", P5, 2, 4),
    Training("resnet-ablation", P5, 1, 1),
    Training("asr-train", G6, 1, 2),
]
URGENT = Training("urgent-eval", P5, 1, 9, 100)
"""It needs a slot of a lower priority."""


def submit(account: Account) -> None:
    os.environ.update(account.variables)
    queue = QueueClient()
    for each in RUN:
        queue.submit(_request(account, each))
    account.until(lambda: all(queue.jobs.view(each.name).progress for each in RUN), "their reports")
    for each in (*WAIT, URGENT):
        queue.submit(_request(account, each))
    account.until(lambda: queue.jobs.view(URGENT.name).state == "running", "the urgent job")
    members = [_request(account, Training(f"lr-grid-{n}", G6, 1, 0)) for n in range(1, 13)]
    queue.groups.submit("lr-grid", members, max_parallel=4)


def _request(account: Account, of: Training) -> dict[str, object]:
    resources = {"InstanceType": of.kind, "InstanceCount": of.slots, "VolumeSizeInGB": 1}
    return account.request(
        of.name,
        TRAINS,
        parameters={"first": of.first},
        ResourceConfig=resources,
        StoppingCondition=HOURS,
        CheckpointConfig={"S3Uri": f"s3://{account.bucket}/{of.name}/checkpoints"},
        Tags=tags(priority=str(of.priority)),
    )


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="slotq-browser-") as folder:
        pools = ("--pool", f"p5=4@{P5}", "--pool", f"g6=2@{G6}")
        account = start(Path(folder), *pools, "--grace", "1", "--tick", "1")
        try:
            submit(account)
            with subprocess.Popen(
                [*SLOTQ, "ui", "--no-browser"],
                env={**os.environ, **account.variables},
                stderr=subprocess.PIPE,
                text=True,
            ) as page:
                assert page.stderr is not None
                print(json.dumps({"link": page.stderr.readline().split()[-1]}), flush=True)
                sys.stdin.read()
                page.send_signal(signal.SIGINT)
        finally:
            slotq("local", "stop", folder=Path(folder))


if __name__ == "__main__":
    main()
