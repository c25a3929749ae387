"""An emulator with jobs as hostile as the API lets them be, behind `slotq ui`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from slotq.client import QueueClient
from tests.functional.local.account import Account
from tests.functional.local.conftest import SLOTQ, slotq, start

MARKUP = "<script>window.pwned = 1</script><img src=x onerror='window.pwned = 1'>"
LONGEST = "javascript-alert-1-" + "W" * 44
"""A name of 63 characters without a place to break the line."""
FAILS = f"""\
import pathlib, sys
print({MARKUP!r}, flush=True)
pathlib.Path("/opt/ml/output/failure").write_text({MARKUP!r})
sys.exit(1)
"""
REPORTS = f"""\
import time, slotq_training
for step in range(1, 3600):
    slotq_training.report(step, of=3600, loss=0.25)
    print("step", step, {MARKUP!r}, flush=True)
    time.sleep(1)
"""


def tags(**settings: str) -> list[dict[str, str]]:
    return [{"Key": f"slotq:{key}", "Value": value} for key, value in settings.items()]


def submit(account: Account) -> dict[str, Any]:
    """Fill the queue. Returns a request for the test to submit by itself."""
    os.environ.update(account.variables)
    queue = QueueClient()
    odd: dict[str, Any] = {
        "Environment": {"ODD": MARKUP},
        "HyperParameters": {"odd": json.dumps(MARKUP)},
    }
    queue.submit(account.request("fails", FAILS))
    account.ended("fails")
    checkpoints = {"S3Uri": f"s3://{account.bucket}/reports/checkpoints"}
    stays = {"MaxRuntimeInSeconds": 3600}
    queue.submit(
        account.request("reports", REPORTS, CheckpointConfig=checkpoints, StoppingCondition=stays)
    )
    for name in (LONGEST, "waits", "cancelled-soon"):
        queue.submit(account.request(name, **odd))
    grid = [account.request(f"grid-{n}", **odd) for n in (1, 2, 3)]
    queue.groups.submit("grid", grid, max_parallel=2)
    return account.request("pasted", Tags=tags(priority="3"))


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="slotq-browser-") as folder:
        account = start(Path(folder), "--pool", "main=1", "--grace", "1", "--tick", "1")
        try:
            request = submit(account)
            with subprocess.Popen(
                [*SLOTQ, "ui", "--no-browser"],
                env={**os.environ, **account.variables},
                stderr=subprocess.PIPE,
                text=True,
            ) as page:
                assert page.stderr is not None
                link = page.stderr.readline().split()[-1]
                print(
                    json.dumps({"link": link, "longest": LONGEST, "request": request}), flush=True
                )
                sys.stdin.read()
                page.send_signal(signal.SIGINT)
        finally:
            slotq("local", "stop", folder=Path(folder))


if __name__ == "__main__":
    main()
