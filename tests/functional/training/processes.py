"""Training scripts as processes, with what a training container has."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
FILE = ROOT / "client_sdk" / "training" / "slotq_training.py"
BESIDE = ROOT / "client_sdk" / "src" / "slotq" / "packaging" / "job_files"
PATIENCE = 120.0


class Container:
    """One host's /opt/ml and environment. Hosts of one job share `tmp`."""

    def __init__(
        self, tmp: Path, *, job: str = "job1", hosts: Sequence[str] = ("algo-1",), host: str = ""
    ) -> None:
        self.job = job
        host = host or hosts[0]
        self.ml = tmp / host / "ml"
        for folder in ("input/config", "output/data", "code", "model"):
            (self.ml / folder).mkdir(parents=True, exist_ok=True)
        (self.ml / "input/config/resourceconfig.json").write_text(
            json.dumps({"current_host": host, "hosts": list(hosts), "network_interface_name": "lo"})
        )
        (self.ml / "code/hfai.py").write_bytes((BESIDE / "hfai.py").read_bytes())
        self.checkpoints = self.ml / "checkpoints"
        kept = ("PATH", "HOME", "LANG", "LD_LIBRARY_PATH")
        self.environment = {
            **{name: os.environ[name] for name in kept if name in os.environ},
            "PYTHONPATH": str(FILE.parent),
            "PYTHONUNBUFFERED": "1",
            "SM_OUTPUT_DIR": str(self.ml / "output"),
            "TRAINING_JOB_NAME": job,
            "TMPDIR": str(tmp),
            # Nobody is there to ask.
            "AWS_ACCESS_KEY_ID": "none",
            "AWS_SECRET_ACCESS_KEY": "none",
            "AWS_REGION": "eu-west-1",
            "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
        }

    def start(
        self,
        script: str,
        *words: str,
        python: str | Path = sys.executable,
        patience: float = PATIENCE,
        **environment: str,
    ) -> subprocess.Popen[str]:
        program = self.ml / "code" / "train.py"
        if not program.exists() or program.read_text() != script:
            program.write_text(script)  # Another rank may be reading it.
        process = subprocess.Popen(
            [str(python), str(program), *words],
            cwd=self.ml / "code",
            env={**self.environment, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        rest = threading.Timer(patience, process.kill)  # A line that never comes ends the wait.
        rest.daemon = True
        rest.start()
        return process

    def run(
        self, script: str, *words: str, patience: float = PATIENCE, **more: str
    ) -> tuple[int, str, str]:
        """Exit code, output and errors."""
        process = self.start(script, *words, patience=patience, **more)
        out, err = process.communicate(timeout=patience)
        return process.returncode, out, err

    def ask(self) -> None:
        """What the queue's marker is, once it is in the checkpoints."""
        marker = self.checkpoints / "_slotq" / self.job / "suspend.json"
        marker.parent.mkdir(parents=True, exist_ok=True)
        marker.write_text("")

    @property
    def failure(self) -> str:
        file = self.ml / "output" / "failure"
        return file.read_text() if file.exists() else ""

    @property
    def report(self) -> dict[str, Any]:
        file = self.checkpoints / "_slotq" / self.job / "report.json"
        found: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
        return found


def until(holds: Callable[[], object], what: str) -> None:
    """Wait until something holds, in another process."""
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.02)
