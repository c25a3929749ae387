"""The demo's machine: an emulator of its own on a free port, and AWS settings that point at it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from slotq.demo.environment import with_variables
from slotq.errors import SlotQError
from slotq.local import keys
from slotq.local.container.host_process import sweep
from slotq.local.endpoint import Endpoint

START_SECONDS = 60.0
STOP_SECONDS = 20.0


class NoEmulator(SlotQError):
    """The emulator did not start; the message has its last words."""


@contextmanager
def emulator(pool: str) -> Iterator[Endpoint]:
    """Runs an emulator with this pool while the context lasts, and points the environment at it.

    Whatever ends the context, the emulator and the training processes under it are gone after it.
    Raises NoEmulator.
    """
    with tempfile.TemporaryDirectory(prefix="slotq-demo-") as folder:
        home = Path(folder)
        with (home / "demo.log").open("wb") as output:
            process = subprocess.Popen(  # noqa: S603 - our own program # nosec B603
                [sys.executable, "-m", "slotq.cli", "local", "start", "--port=0", f"--pool={pool}"],
                env={**os.environ, "SLOTQ_LOCAL_DIR": folder},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for us alone: we end it when we have looked.
            )
        try:
            endpoint = _answering(process, home)
            with with_variables(_settings(endpoint, home), instead_of=("AWS_", "SLOTQ_")):
                yield endpoint
        finally:
            _stop(process, home)


def _answering(process: subprocess.Popen[bytes], home: Path) -> Endpoint:
    """Where it answers, once it does."""
    until = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < until:
        if said := _saved(home):
            return Endpoint(url=said["url"], keys=keys.kept(home), region=said["region"])
        time.sleep(0.1)
    words = (home / "demo.log").read_text(errors="replace")[-2000:].strip()
    raise NoEmulator(f"the emulator did not start; it said:\n{words}")


def _saved(home: Path) -> dict[str, str] | None:
    """What the emulator leaves in a file when it answers, and removes when it has ended."""
    try:
        said: dict[str, str] = json.loads((home / "emulator.json").read_text())
    except (FileNotFoundError, ValueError):
        return None
    return said


def _stop(process: subprocess.Popen[bytes], home: Path) -> None:
    """SIGTERM, on which the emulator ends its training processes; what is left is killed."""
    saved = _saved(home)
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if saved is not None:
        sweep(f"{saved['run']}/")


def _settings(endpoint: Endpoint, home: Path) -> dict[str, str]:
    """The environment of whoever has no settings but the emulator's."""
    for name in ("slotq.toml", "sagemaker.yaml"):
        (home / name).touch()
    return {
        **endpoint.variables(),
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "NO_PROXY": "127.0.0.1,localhost",
        "SAGEMAKER_ADMIN_CONFIG_OVERRIDE": str(home / "sagemaker.yaml"),
        "SAGEMAKER_USER_CONFIG_OVERRIDE": str(home / "sagemaker.yaml"),
        "SLOTQ_CONFIG": str(home / "slotq.toml"),
        "SLOTQ_ENDPOINT": endpoint.queue,
    }
