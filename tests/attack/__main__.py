"""`make fuzz`: schemathesis against docs/openapi.json and the real handler.

    python -m tests.attack [--short | --examples N] [--seed N]

Ends with 1 where an answer was 5xx, a 4xx had no message in the form of every refusal, or an answer
was not what the document says.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

import app
from tests.attack.api_server import SCHEMA, ApiServer, open_to
from tests.attack.sagemaker import StrictClient
from tests.functional.account import Account
from tests.functional.conftest import in_use

PROGRAM = Path(sys.executable).with_name("schemathesis")
WHOLE, SHORT = 1200, 40
"""Examples for each operation with parameters or a body."""
LEAST = 10_000
"""Requests of a whole run."""
ROOT = Path(__file__).parents[2]
PATIENCE = 120
"""Seconds; generous, because a busy machine is not a finding."""
LEFT_OUT = {
    "positive_data_acceptance": "what fits the schema may still never fit a pool",
    "use_after_free": "DELETE cancels a job; it stays readable",
}
"""Checks of schemathesis that do not apply here, and why."""
RUNS = {
    "each operation": ("examples,coverage,fuzzing", True, 1),
    "one after another": ("stateful", False, 5),
}
"""By name: schemathesis' phases, whether the account is made anew now and then, and by what the
number of examples is divided: one of these is several requests."""


def attack(server: ApiServer, phases: str, *, examples: int, seed: int) -> int:
    """Run schemathesis. Returns its exit code; it prints its findings."""
    with open_to(server) as address:
        command = [
            *(str(PROGRAM), "--no-color", "run", address + SCHEMA, "--url", address),
            *("--phases", phases, "--max-examples", str(examples), "--seed", str(seed)),
            *("--request-timeout", str(PATIENCE)),
            *("--exclude-checks", ",".join(LEFT_OUT), "--generation-database", "none"),
        ]
        where = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).strip(os.pathsep)
        hooks = {"SCHEMATHESIS_HOOKS": "tests.attack.hooks", "PYTHONPATH": where}
        environment = {**os.environ, **hooks}
        return subprocess.run(command, env=environment, check=False).returncode


def run(phases: str, *, renews: bool, examples: int, seed: int) -> tuple[int, ApiServer]:
    with pytest.MonkeyPatch.context() as patch:
        for account in in_use(Account(), patch):
            patch.setattr(app, "sagemaker_client", lambda its=account: StrictClient(its.plane))
            patch.setattr(app.logger.registered_handler, "stream", io.StringIO())
            with contextlib.redirect_stdout(io.StringIO()):  # the metrics
                server = ApiServer(account, renews=renews)
                return attack(server, phases, examples=examples, seed=seed), server
    raise AssertionError


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_const", dest="examples", const=SHORT)
    parser.add_argument("--examples", type=int)
    parser.set_defaults(examples=WHOLE)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    began, failed, wrong = time.monotonic(), False, []
    statuses: Counter[int] = Counter()
    for name, (phases, renews, part) in RUNS.items():
        print(f"\n== {name}", flush=True)
        examples = max(1, asked.examples // part)
        code, server = run(phases, renews=renews, examples=examples, seed=asked.seed)
        failed |= code != 0
        wrong += server.wrong
        statuses += server.statuses
    few = asked.examples >= WHOLE and statuses.total() < LEAST
    summary = {
        "requests": statuses.total(),
        "by_status": {str(code): statuses[code] for code in sorted(statuses)},
        "wrong": len(wrong),
        "seconds": round(time.monotonic() - began),
    }
    print(*wrong[:20], sep="\n")
    print(json.dumps(summary))
    if few:
        print(f"fewer than {LEAST:,} requests")
    return int(failed or bool(wrong) or few)


if __name__ == "__main__":
    sys.exit(main())
